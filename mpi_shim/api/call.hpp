// SPDX-License-Identifier: Apache-2.0
// mpi_shim/api/call.hpp — the argument checks of one call of an MPI function: each check turns an argument into an
// object.  The first wrong argument raises an MPI error, with a message that names the function and, where it is known,
// the argument: the error handler of the last communicator or window that comm() or window() has found is called.
// A failed check throws; run() catches the exception and returns the error.  So every result of a check is valid.
// Owned by the stack frame of the MPI function; raw pointers that it returns are borrowed.  Threads: one.
// A Call ends the burst of the process (p2p/burst.hpp).  A Call with When::running ends the process if MPI is not
// initialised or is finalised.
#pragma once
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "mpi_shim/info/info.hpp"
#include "mpi_shim/op/op.hpp"
#include "mpi_shim/p2p/data/buffer.hpp"
#include "mpi_shim/process/handles.hpp"
#include "mpi_shim/process/process.hpp"
#include "mpi_shim/process/raise.hpp"

namespace mpi_shim::rma {
class Window;
}

namespace mpi_shim::api {

class Call {
 public:
  enum class When {
    running,
    any_time,  ///< also before MPI_Init and after MPI_Finalize; process() must not be used
  };
  explicit Call(const char* function, When when = When::running) noexcept
      : function_(function), process_(Process::current()) {
    if (process_ == nullptr && when == When::running) [[unlikely]]
      end_process();
    p2p::Burst::end_any();
  }

  /// Runs `body(Call&)`, the MPI function `function`.  Returns its result, or the error with which it was left: the
  /// return value of the MPI function.
  template <class Body>
  static int run(const char* function, Body&& body, When when = When::running) {
    Call call{function, when};
    try {
      return body(call);
    } catch (const Failed& failed) {
      return failed.error;
    }
  }

  [[nodiscard]] const char* function() const noexcept { return function_; }  ///< "MPI_Send"
  [[nodiscard]] Process& process() const noexcept { return *process_; }

  /// Raises an error and leaves the MPI function.
  [[noreturn, gnu::cold]] void fail(int error_class, const std::string& message);
  /// As fail(), with the text of the error class as the message.
  [[noreturn, gnu::cold]] void fail_class(int error_class);
  [[noreturn, gnu::cold]] void fail_count(MPI_Count count, const char* argument = "count");
  [[noreturn, gnu::cold]] void fail_in_place() {
    fail(MPI_ERR_BUFFER, "argument sendbuf or recvbuf cannot be MPI_IN_PLACE here");
  }

  /// Returns MPI_SUCCESS if `error_class`, the result of an operation, is that; else as fail_class().
  int finish(int error_class) {
    if (error_class != MPI_SUCCESS) [[unlikely]]
      fail_class(error_class);
    return MPI_SUCCESS;
  }

  /// Raises an error but does not leave the MPI function.  Returns the error that it has to return.
  [[gnu::cold]] int raise_class(int error_class);
  /// As raise_class(), with the error handler of `comm`; for MPI_COMM_NULL with the one that fail() uses.
  [[gnu::cold]] int raise_on(MPI_Comm comm, int error_class);

  /// The object that `handle` names.  `kind` is its name in the message of the error.
  template <class T, class Handle>
  T* find(Handle handle, int error_class, const char* argument, const char* kind) {
    T* const found = handle::find<T>(handle);
    if (found == nullptr) [[unlikely]]
      fail_handle(error_class, argument, kind);
    return found;
  }

  /// Errors are raised on this communicator from now on; it may be freed, but is in use.
  void raise_errors_on(MPI_Comm comm) noexcept { scope_ = comm; }

  comm::Communicator* comm(MPI_Comm handle, const char* argument = "comm") {
    auto* const communicator = find<comm::Communicator>(handle, MPI_ERR_COMM, argument, "communicator");
    scope_ = handle;
    return communicator;
  }

  /// An intracommunicator; any other communicator is an error.
  comm::Communicator* intracomm(MPI_Comm handle, const char* argument = "comm") {
    comm::Communicator* const communicator = comm(handle, argument);
    if (communicator->is_inter()) [[unlikely]]
      fail_kind(argument, "an intercommunicator");
    return communicator;
  }
  /// An intercommunicator; any other communicator is an error.
  comm::Communicator* intercomm(MPI_Comm handle, const char* argument = "comm") {
    comm::Communicator* const communicator = comm(handle, argument);
    if (!communicator->is_inter()) fail_kind(argument, "no intercommunicator");
    return communicator;
  }
  rma::Window* window(MPI_Win handle);
  // Overloads for templates over the three kinds of objects that have a name and attributes.
  auto* object(MPI_Comm handle) { return comm(handle); }
  auto* object(MPI_Win handle) { return window(handle); }
  auto* object(MPI_Datatype handle) { return any_type(handle); }
  /// An error handler that is predefined or of kind `own` (comm_function or win_function).
  comm::ErrhandlerRef errhandler(MPI_Errhandler handle, comm::Errhandler::Kind own);
  /// Checks that `rank` is a rank of the window or MPI_PROC_NULL.
  void target(rma::Window* window, int rank, const char* argument = "target_rank");

  std::shared_ptr<const comm::Group> group(MPI_Group handle, const char* argument = "group") {
    std::shared_ptr<const comm::Group> group = find_group(handle);
    if (group == nullptr) fail_handle(MPI_ERR_GROUP, argument, "group");
    return group;
  }

  /// `count` instances of the committed datatype at `base`.
  p2p::Buffer buffer(const void* base, MPI_Count count, MPI_Datatype handle) {
    if (count < 0) [[unlikely]]
      fail_count(count);
    const datatype::Datatype* type = this->type(handle);
    if (!p2p::Buffer::fits(static_cast<std::uint64_t>(count), *type)) [[unlikely]]
      fail(MPI_ERR_COUNT, "the message is larger than 2^63 bytes");
    const p2p::Buffer buffer{base, static_cast<std::uint64_t>(count), *type};
    if (is_no_memory(base) && buffer.bytes() != 0) [[unlikely]]
      check_base(base, *type);
    return buffer;
  }

  /// Whether `base` is MPI_BOTTOM (a null pointer) or MPI_IN_PLACE; one comparison, since
  /// MPI_BOTTOM is 0 and MPI_IN_PLACE is 1.
  static bool is_no_memory(const void* base) noexcept {
    return reinterpret_cast<std::uintptr_t>(base) <= reinterpret_cast<std::uintptr_t>(MPI_IN_PLACE);
  }

  /// The buffer of a message to or from `rank`; for MPI_PROC_NULL an empty buffer, and no argument is checked.
  p2p::Buffer buffer(const void* base, MPI_Count count, MPI_Datatype handle, int rank) {
    return rank == MPI_PROC_NULL ? p2p::Buffer{} : buffer(base, count, handle);
  }

  /// A datatype, committed or not.
  datatype::Datatype* any_type(MPI_Datatype handle, const char* argument = "datatype") {
    return find<datatype::Datatype>(handle, MPI_ERR_TYPE, argument, "datatype");
  }
  /// A committed datatype.
  const datatype::Datatype* type(MPI_Datatype handle, const char* argument = "datatype") {
    const datatype::Datatype* const type = any_type(handle, argument);
    if (!type->is_committed()) [[unlikely]]
      fail(MPI_ERR_TYPE, "the datatype is not committed");
    return type;
  }

  op::Op* any_op(MPI_Op handle) { return find<op::Op>(handle, MPI_ERR_OP, "op", "operation"); }
  /// A reduction that is defined for `datatype`.
  const op::Op* op(MPI_Op handle, MPI_Datatype datatype) {
    const op::Op* const op = any_op(handle);
    const datatype::Datatype* const type = this->type(datatype);
    if (!op->reduces(*type)) [[unlikely]]
      fail_op(*op, *type);
    return op;
  }

  /// Checks that `rank` is one of the ranks 0 to size - 1 of `where`.
  void rank(const char* argument, int rank, int size, const char* where) {
    if (rank < 0 || rank >= size) [[unlikely]]
      fail_rank(argument, rank, size, where);
  }
  /// Checks that `rank` is a rank to send to, or MPI_PROC_NULL; source() also takes MPI_ANY_SOURCE.
  void destination(const comm::Communicator* comm, int rank) {
    if ((rank < 0 || rank >= comm->remote_size()) && rank != MPI_PROC_NULL) [[unlikely]]
      fail_rank("dest", rank, *comm);
  }
  void source(const comm::Communicator* comm, int rank) {
    if ((rank < 0 || rank >= comm->remote_size()) && rank != MPI_PROC_NULL && rank != MPI_ANY_SOURCE) [[unlikely]]
      fail_rank("source", rank, *comm);
  }
  void send_tag(int tag, const char* argument = "tag") {
    if (tag < 0) [[unlikely]]
      fail_tag(argument, tag);
  }
  void receive_tag(int tag, const char* argument = "tag") {
    if (tag < 0 && tag != MPI_ANY_TAG) [[unlikely]]
      fail_tag(argument, tag);
  }
  /// Checks that `rank` is a rank of the communicator.  For an intercommunicator it is a rank of the remote group,
  /// MPI_ROOT or MPI_PROC_NULL.
  void root(const comm::Communicator* comm, int rank);
  /// Checks that the handle is an info object or MPI_INFO_NULL.
  void info(MPI_Info handle);
  void pointer(const void* pointer, const char* argument) {
    if (pointer == nullptr) [[unlikely]]
      fail_null(argument);
  }
  /// As pointer(), before any argument is checked: an error is raised on `scope`.
  void result(const void* pointer, const char* argument, ErrorScope scope) {
    if (pointer != nullptr) [[likely]]
      return;
    scope_ = scope;
    fail_null(argument);
  }

  /// The topology of `comm`; an error if it is not a T.  `kind` names the topology in the message.
  template <class T>
  const T* topology(const comm::Communicator* comm, const char* kind) {
    const T* const found = comm->topology_as<T>();
    if (found == nullptr) fail(MPI_ERR_TOPOLOGY, std::string{"argument comm has no "} + kind + " topology");
    return found;
  }

  /// Ends a query function: stores its result.
  template <class T>
  static int answer(T* result, std::type_identity_t<T> value) {
    *result = value;
    return MPI_SUCCESS;
  }
  /// As answer(), with the handle of a new info object of these entries.
  int answer_info(info::Info::Entries entries, MPI_Info* info);
  /// As answer(), with a string and its length (MPI_*_get_name).  Requires: `text` has room for `name` and a zero byte.
  int answer_name(const std::string& name, char* text, int* length);

 private:
  /// The exception that ends an MPI function; its error handler has already run.
  struct Failed {
    int error;
  };

  [[noreturn, gnu::cold]] void end_process() const;
  [[noreturn, gnu::cold]] void fail_handle(int error_class, const char* argument, const char* kind);
  [[noreturn, gnu::cold]] void fail_kind(const char* argument, const char* kind);
  [[noreturn, gnu::cold]] void fail_rank(const char* argument, int rank, const comm::Communicator& comm,
                                         int error_class = MPI_ERR_RANK);
  [[noreturn, gnu::cold]] void fail_rank(const char* argument, int rank, int size, std::string_view where,
                                         int error_class = MPI_ERR_RANK);
  [[noreturn, gnu::cold]] void fail_op(const op::Op& op, const datatype::Datatype& type);
  [[noreturn, gnu::cold]] void fail_tag(const char* argument, int tag);
  [[noreturn, gnu::cold]] void fail_null(const char* argument);
  [[gnu::cold]] void check_base(const void* base, const datatype::Datatype& type);

  [[gnu::cold]] static std::string name_of(const comm::Communicator& comm);

  const char* function_;
  Process* process_;
  ErrorScope scope_;
};

/// `value` as an Integer; MPI_UNDEFINED if it does not fit.
template <class Integer>
Integer narrowed(std::int64_t value) noexcept {
  return std::in_range<Integer>(value) ? static_cast<Integer>(value) : Integer{MPI_UNDEFINED};
}

/// Ends a function that creates a communicator: stores its handle, or MPI_COMM_NULL if this process is not a member.
/// The new communicator gets `topology` unless it is null.  Returns the return value of the MPI function.
inline int hand_out(Call& call, const comm::Made& made, MPI_Comm* newcomm,
                    std::shared_ptr<const comm::Topology> topology = nullptr) {
  call.finish(made.error);
  if (made.comm != nullptr && topology != nullptr) made.comm->topology = std::move(topology);
  *newcomm = made.comm != nullptr ? made.comm->mpi_handle() : MPI_COMM_NULL;
  return MPI_SUCCESS;
}

}  // namespace mpi_shim::api
