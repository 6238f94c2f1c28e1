// SPDX-License-Identifier: Apache-2.0
// Every implemented function with every wrong argument that its declaration in functions.def tells of: a handle that is
// null, freed or of another kind, a rank, root, tag, count, key or assertion that is none.  Each must be refused with
// the error class of that kind of argument, before anything else is done, which is why one process is enough.
#include <dlfcn.h>
#include <mpi.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "mpi_shim/abi/generator/table.hpp"

namespace {

using opal::mpi::abi::Function;
using opal::mpi::abi::Parameter;
using Word = std::intptr_t;  // any argument: none of MPI is a floating-point number

template <class Handle>
Word word(Handle handle) {
  return reinterpret_cast<Word>(handle);
}
bool starts_with(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }
bool ends_with(const std::string& text, const std::string& suffix) {
  return text.size() >= suffix.size() && text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}
/// Send_c and Send have the same arguments.
std::string without_suffix(const std::string& name) {
  return ends_with(name, "_c") ? name.substr(0, name.size() - 2) : name;
}

/// Valid objects of all kinds, and freed ones.
struct Objects {
  MPI_Comm cart = MPI_COMM_NULL, graph = MPI_COMM_NULL, dist_graph = MPI_COMM_NULL, freed_comm = MPI_COMM_NULL;
  MPI_Datatype uncommitted = MPI_DATATYPE_NULL, freed_type = MPI_DATATYPE_NULL;
  MPI_Group world = MPI_GROUP_NULL, freed_group = MPI_GROUP_NULL;
  MPI_Info info = MPI_INFO_NULL, freed_info = MPI_INFO_NULL;
  MPI_Win idle = MPI_WIN_NULL, locked = MPI_WIN_NULL, freed_win = MPI_WIN_NULL;
  MPI_Op freed_op = MPI_OP_NULL;
  MPI_Errhandler freed_handler = MPI_ERRHANDLER_NULL;
  MPI_Request freed_request = MPI_REQUEST_NULL;
  MPI_Message message = MPI_MESSAGE_NULL;  // of one int from this process to itself
  int comm_key = MPI_KEYVAL_INVALID, type_key = MPI_KEYVAL_INVALID, win_key = MPI_KEYVAL_INVALID;
};
Objects objects;
std::array<long long, 512> window_memory;

void no_comm_handler(MPI_Comm* /*comm*/, int* /*code*/, ...) {}
void no_op(void* /*in*/, void* /*inout*/, int* /*length*/, MPI_Datatype* /*type*/) {}

void make_objects() {
  const std::array<int, 1> one{1};
  const std::array<int, 1> zero{0};
  for (MPI_Comm comm : {MPI_COMM_WORLD, MPI_COMM_SELF}) MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Cart_create(MPI_COMM_WORLD, 1, one.data(), one.data(), 0, &objects.cart);
  MPI_Graph_create(MPI_COMM_WORLD, 1, one.data(), zero.data(), 0, &objects.graph);
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, zero.data(), MPI_UNWEIGHTED, 1, zero.data(), MPI_UNWEIGHTED,
                                 MPI_INFO_NULL, 0, &objects.dist_graph);
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  objects.freed_comm = comm;
  MPI_Comm_free(&comm);
  MPI_Type_contiguous(2, MPI_INT, &objects.uncommitted);
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(3, MPI_INT, &type);
  objects.freed_type = type;
  MPI_Type_free(&type);
  MPI_Comm_group(MPI_COMM_WORLD, &objects.world);
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Comm_group(MPI_COMM_WORLD, &group);
  objects.freed_group = group;
  MPI_Group_free(&group);
  MPI_Info_create(&objects.info);
  MPI_Info_set(objects.info, "key", "value");
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  objects.freed_info = info;
  MPI_Info_free(&info);
  MPI_Win win = MPI_WIN_NULL;
  for (MPI_Win* place : {&objects.idle, &objects.locked, &win}) {
    MPI_Win_create(window_memory.data(), sizeof window_memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, place);
    MPI_Win_set_errhandler(*place, MPI_ERRORS_RETURN);
  }
  MPI_Win_lock_all(0, objects.locked);
  objects.freed_win = win;
  MPI_Win_free(&win);
  MPI_Op op = MPI_OP_NULL;
  MPI_Op_create(no_op, 1, &op);
  objects.freed_op = op;
  MPI_Op_free(&op);
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_create_errhandler(no_comm_handler, &handler);
  objects.freed_handler = handler;
  MPI_Errhandler_free(&handler);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  objects.freed_request = request;
  MPI_Request_free(&request);
  static int sent = 4711;
  MPI_Isend(&sent, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request);
  MPI_Request_free(&request);
  MPI_Mprobe(0, 0, MPI_COMM_WORLD, &objects.message, MPI_STATUS_IGNORE);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &objects.comm_key, nullptr);
  MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &objects.type_key, nullptr);
  MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &objects.win_key, nullptr);
}

/// Every object is still what it was.
bool free_objects() {
  int received = 0;
  MPI_Mrecv(&received, 1, MPI_INT, &objects.message, MPI_STATUS_IGNORE);
  MPI_Win_unlock_all(objects.locked);
  for (MPI_Win* win : {&objects.idle, &objects.locked}) MPI_Win_free(win);
  for (MPI_Comm* comm : {&objects.cart, &objects.graph, &objects.dist_graph}) MPI_Comm_free(comm);
  MPI_Type_free(&objects.uncommitted);
  MPI_Group_free(&objects.world);
  MPI_Info_free(&objects.info);
  MPI_Comm_free_keyval(&objects.comm_key);
  MPI_Type_free_keyval(&objects.type_key);
  MPI_Win_free_keyval(&objects.win_key);
  return received == 4711;
}

bool is_array(const Parameter& parameter) { return !parameter.array.empty(); }

/// Memory that an argument points to: room for any result, and the first element is the given word.
Word pointer_to(Word first) {
  static std::array<std::array<long long, 512>, 32> rooms;
  static std::size_t next = 0;
  auto& room = rooms.at(next++ % rooms.size());
  room.fill(first);
  return word(room.data());
}

int key_of(const Function& function) {
  if (starts_with(function.name, "Type_")) return objects.type_key;
  return starts_with(function.name, "Win_") ? objects.win_key : objects.comm_key;
}

MPI_Comm comm_of(const Function& function) {
  const std::string& name = function.name;
  const bool makes_one = name.find("_create") != std::string::npos || name.find("_map") != std::string::npos;
  if (starts_with(name, "Dist_graph_") && !makes_one) return objects.dist_graph;
  if (starts_with(name, "Graph") && !makes_one) return objects.graph;
  const bool on_grid = starts_with(name, "Cart") || name.find("eighbor") != std::string::npos;
  return on_grid && !makes_one ? objects.cart : MPI_COMM_WORLD;
}

/// A valid argument; of those that say how much there is of something, one.
Word valid(const Function& function, const Parameter& parameter) {
  static const std::set<std::string> ones = {"count",   "sendcount",    "recvcount",    "incount",  "outcount",
                                             "insize",  "origin_count", "target_count", "n",        "ndims",
                                             "nnodes",  "disp_unit",    "result_count", "size",     "blocklength",
                                             "maxdims", "indegree",     "outdegree",    "valuelen", "partitions"};
  const std::string& type = parameter.type;
  const std::string& name = parameter.name;
  if (is_array(parameter) || type.find('*') != std::string::npos) {
    if (type.find("MPI_Datatype") != std::string::npos) return pointer_to(word(MPI_INT));
    if (type.find("MPI_Request") != std::string::npos) return pointer_to(word(MPI_REQUEST_NULL));
    if (type.find("MPI_Message") != std::string::npos) return pointer_to(word(objects.message));
    if (starts_with(type, "const char")) return word(name == "datarep" ? "external32" : "key");
    const bool ranks = name == "ranks" || name == "ranks1" || name == "sources" || name == "destinations" ||
                       name == "edges" || name.find("displ") != std::string::npos || name == "ranges";
    return pointer_to(type == "const int" || type == "const MPI_Count" ? (ranks ? 0 : 1) : 0);
  }
  if (type == "MPI_Comm") return word(comm_of(function));
  if (type == "MPI_Datatype") return word(MPI_INT);
  if (type == "MPI_Op") return word(MPI_SUM);
  if (type == "MPI_Group") return word(objects.world);
  if (type == "MPI_Info") return word(starts_with(function.name, "Info_") ? objects.info : MPI_INFO_NULL);
  if (type == "MPI_Win") return word(starts_with(function.name, "Win_") ? objects.idle : objects.locked);
  if (type == "MPI_Errhandler") return word(MPI_ERRORS_RETURN);
  if (type == "MPI_Request") return word(MPI_REQUEST_NULL);
  if (name == "outsize") return 4096;
  if (name.find("keyval") != std::string::npos) return key_of(function);
  if (name == "lock_type") return MPI_LOCK_SHARED;
  if (name == "split_type") return MPI_COMM_TYPE_SHARED;
  if (name == "order") return MPI_ORDER_C;
  return ones.count(name) != 0 ? 1 : 0;
}

struct Bad {
  Word value = 0;
  int error_class = 0;
};

std::vector<Bad> bad_handles(const Function& function, const std::string& type) {
  const bool moves_data = !starts_with(function.name, "Type_") && function.name != "Pack_external_size";
  if (ends_with(function.name, "_get_name")) {  // null handles have names
    if (type == "MPI_Comm") return {{word(objects.freed_comm), MPI_ERR_COMM}};
    if (type == "MPI_Datatype") return {{word(objects.freed_type), MPI_ERR_TYPE}};
    return {{word(objects.freed_win), MPI_ERR_WIN}};
  }
  if (type == "MPI_Comm") {
    return {
        {word(MPI_COMM_NULL), MPI_ERR_COMM}, {word(objects.freed_comm), MPI_ERR_COMM}, {word(MPI_INT), MPI_ERR_COMM}};
  }
  if (type == "MPI_Datatype") {
    std::vector<Bad> bad = {{word(MPI_DATATYPE_NULL), MPI_ERR_TYPE}, {word(objects.freed_type), MPI_ERR_TYPE}};
    if (moves_data) bad.push_back({word(objects.uncommitted), MPI_ERR_TYPE});
    return bad;
  }
  if (type == "MPI_Op") return {{word(MPI_OP_NULL), MPI_ERR_OP}, {word(objects.freed_op), MPI_ERR_OP}};
  if (type == "MPI_Group") return {{word(MPI_GROUP_NULL), MPI_ERR_GROUP}, {word(objects.freed_group), MPI_ERR_GROUP}};
  if (type == "MPI_Win") return {{word(MPI_WIN_NULL), MPI_ERR_WIN}, {word(objects.freed_win), MPI_ERR_WIN}};
  if (type == "MPI_Errhandler") {
    return {{word(MPI_ERRHANDLER_NULL), MPI_ERR_ERRHANDLER}, {word(objects.freed_handler), MPI_ERR_ERRHANDLER}};
  }
  if (type == "MPI_Info") {  // where it is a hint, MPI_INFO_NULL means none
    std::vector<Bad> bad = {{word(objects.freed_info), MPI_ERR_INFO}};
    if (starts_with(function.name, "Info_")) bad.push_back({word(MPI_INFO_NULL), MPI_ERR_INFO});
    return bad;
  }
  if (type == "MPI_Request") return {{word(objects.freed_request), MPI_ERR_REQUEST}};
  if (type == "MPI_Message") return {{word(MPI_MESSAGE_NULL), MPI_ERR_REQUEST}};
  return {};
}

/// Whether a pointer to a handle, or an array of them, is an argument and not a result.
bool is_read(const Function& function, const Parameter& parameter) {
  static const std::set<std::string> readers = {"Wait", "Test", "Cancel", "Start", "Type_commit", "Comm_disconnect"};
  if (parameter.name == "message")
    return without_suffix(function.name) == "Mrecv" || without_suffix(function.name) == "Imrecv";
  return starts_with(parameter.type, "const ") || ends_with(function.name, "_free") ||
         readers.count(without_suffix(function.name)) != 0 || parameter.name == "array_of_requests";
}

std::vector<Bad> bad_values(const Function& function, const Parameter& parameter) {
  static const std::map<std::string, std::vector<Bad>> by_name = {
      {"dest", {{1, MPI_ERR_RANK}, {-9, MPI_ERR_RANK}}},
      {"source", {{1, MPI_ERR_RANK}, {-9, MPI_ERR_RANK}}},
      {"rank", {{1, MPI_ERR_RANK}, {-9, MPI_ERR_RANK}}},
      {"target_rank", {{1, MPI_ERR_RANK}, {-9, MPI_ERR_RANK}}},
      {"local_leader", {{1, MPI_ERR_RANK}, {-9, MPI_ERR_RANK}}},
      {"remote_leader", {{1, MPI_ERR_RANK}, {-9, MPI_ERR_RANK}}},
      {"root", {{1, MPI_ERR_ROOT}, {MPI_PROC_NULL, MPI_ERR_ROOT}}},
      {"tag", {{-9, MPI_ERR_TAG}}},
      {"sendtag", {{-9, MPI_ERR_TAG}, {MPI_ANY_TAG, MPI_ERR_TAG}}},
      {"recvtag", {{-9, MPI_ERR_TAG}}},
      {"count", {{-1, MPI_ERR_COUNT}}},
      {"sendcount", {{-1, MPI_ERR_COUNT}}},
      {"recvcount", {{-1, MPI_ERR_COUNT}}},
      {"incount", {{-1, MPI_ERR_COUNT}}},
      {"outcount", {{-1, MPI_ERR_COUNT}}},
      {"origin_count", {{-1, MPI_ERR_COUNT}}},
      {"result_count", {{-1, MPI_ERR_COUNT}}},
      {"target_count", {{-1, MPI_ERR_COUNT}}},
      {"lock_type", {{0, MPI_ERR_LOCKTYPE}}},
      {"assert", {{1, MPI_ERR_ASSERT}}},
      {"disp_unit", {{0, MPI_ERR_DISP}, {-1, MPI_ERR_DISP}}},
  };
  const bool negative_type = parameter.type == "int" || parameter.type == "MPI_Count" || parameter.type == "MPI_Aint";
  if (negative_type && !is_array(parameter)) {
    if (parameter.name.find("keyval") != std::string::npos) return {{MPI_KEYVAL_INVALID, MPI_ERR_KEYVAL}};
    if (parameter.type == "MPI_Aint" && parameter.name == "size") return {{-1, MPI_ERR_SIZE}};
    const auto found = by_name.find(parameter.name);
    return found != by_name.end() ? found->second : std::vector<Bad>{};
  }
  static const std::set<std::string> buffers = {"buf",      "buffer",      "sendbuf",     "recvbuf", "inbuf",
                                                "inoutbuf", "origin_addr", "result_addr", "outbuf",  "compare_addr"};
  if (ends_with(parameter.type, "void*") && buffers.count(parameter.name) != 0) {
    return {{word(MPI_BOTTOM), MPI_ERR_BUFFER}};
  }
  if (ends_with(function.name, "eyval_free") || ends_with(function.name, "_free_keyval")) {
    return {{pointer_to(MPI_KEYVAL_INVALID), MPI_ERR_KEYVAL}};
  }
  if (!is_array(parameter) && parameter.type.find('*') == std::string::npos)
    return bad_handles(function, parameter.type);
  if (!is_read(function, parameter)) return {};
  std::string type = parameter.type.substr(starts_with(parameter.type, "const ") ? 6 : 0);
  type = type.substr(0, type.find('*'));
  std::vector<Bad> bad = bad_handles(function, type);
  for (Bad& one : bad) one.value = pointer_to(one.value);
  return bad;
}

/// A pointer to what the function returns, which may not be null.
bool is_result(const Function& function, const Parameter& parameter) {
  static const std::set<std::string> exempt = {
      // Callable at any time, when no error handler may be there to be called.
      "Abi_get_version", "Error_class", "Error_string", "Finalized", "Get_address", "Get_library_version",
      "Get_version", "Initialized", "Status_get_error", "Test_cancelled", "Status_get_source", "Status_get_tag",
      // Insignificant here: the weights of no neighbours.
      "Dist_graph_neighbors"};
  const std::string& type = parameter.type;
  return ends_with(type, "*") && !is_array(parameter) && !ends_with(type, "**") && !starts_with(type, "const ") &&
         type != "void*" && type != "MPI_Status*" && !ends_with(type, "_function*") &&
         !starts_with(function.name, "Init") && exempt.count(function.name) == 0;
}

/// Arguments that may be what is wrong elsewhere.
bool may_be_anything(const Function& function, const Parameter& parameter) {
  static const std::set<std::string> exempt = {
      "Abort.comm",  // it ends the job whatever it is
      "Status_set_source.source",
      "Status_set_tag.tag",  // any integer
      "Exscan.recvbuf",
      "Iexscan.recvbuf",
      "Exscan_init.recvbuf",    // not significant at rank 0
      "Info_get_string.value",  // *buflen is 0: no room for it
  };
  const std::string& name = function.name;
  if (ends_with(name, "_toint") || ends_with(name, "_fromint")) return true;
  return exempt.count(without_suffix(name) + "." + parameter.name) != 0;
}

/// Where the standard names no class, and the library says MPI_ERR_ARG.
int class_for(const Function& function, const Parameter& parameter, int error_class) {
  static const std::set<std::string> plain = {"Alloc_mem.size", "Type_create_darray.rank"};
  return plain.count(without_suffix(function.name) + "." + parameter.name) != 0 ? MPI_ERR_ARG : error_class;
}

std::vector<Bad> all_bad(const Function& function, const Parameter& parameter) {
  std::vector<Bad> bad = bad_values(function, parameter);
  if (is_result(function, parameter)) bad.push_back({0, MPI_ERR_ARG});
  return bad;
}

const char* volatile running = "";
void report(int signal) {
  std::fprintf(stderr, "%s %s\n", running, signal == SIGALRM ? "did not return" : "crashed");
  _exit(1);
}

int call(const Function& function, const std::vector<Word>& a) {
  using Any = int (*)(Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word);
  auto* const address = reinterpret_cast<Any>(dlsym(RTLD_DEFAULT, ("MPI_" + function.name).c_str()));
  if (address == nullptr) return MPI_ERR_UNKNOWN;
  return address(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13]);
}

struct Tally {
  int calls = 0;
  int wrong = 0;
};

void check(const Function& function, Tally& tally) {
  for (std::size_t p = 0; p < function.parameters.size(); ++p) {
    const Parameter& parameter = function.parameters[p];
    if (may_be_anything(function, parameter)) continue;
    for (const Bad& bad : all_bad(function, parameter)) {
      std::vector<Word> arguments(14, 0);
      for (std::size_t i = 0; i < function.parameters.size(); ++i) {
        arguments[i] = i == p ? bad.value : valid(function, function.parameters[i]);
      }
      const std::string what = "MPI_" + function.name + " with a bad " + parameter.name;
      running = what.c_str();
      alarm(20);
      const int error = call(function, arguments);
      alarm(0);
      ++tally.calls;
      if (error == class_for(function, parameter, bad.error_class)) continue;
      std::printf("%s (%lld) returned %d, not %d\n", what.c_str(), static_cast<long long>(bad.value), error,
                  bad.error_class);
      ++tally.wrong;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  for (const int number : {SIGALRM, SIGSEGV, SIGBUS, SIGABRT}) std::signal(number, report);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  make_objects();
  std::ifstream definitions(OPAL_TEST_FUNCTIONS_DEF);
  std::ifstream symbols(OPAL_TEST_SYMBOLS);
  opal::mpi::abi::Table table = opal::mpi::abi::parse_table(definitions);
  opal::mpi::abi::mark_implemented(table, symbols);
  Tally tally;
  for (const auto& group : table) {
    for (const Function& function : group.functions) {
      if (function.implemented) check(function, tally);
    }
  }
  std::printf("%d calls with one wrong argument each, %d of them not refused as they should be\n", tally.calls,
              tally.wrong);
  const bool unchanged = free_objects();
  MPI_Finalize();
  return unchanged && tally.wrong == 0 && tally.calls > 1000 ? 0 : 1;
}
