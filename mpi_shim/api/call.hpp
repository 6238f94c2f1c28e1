// SPDX-License-Identifier: Apache-2.0
// mpi_shim/api/call.hpp — one call of an MPI function: turns its arguments into objects, checks them, and raises the
// first mistake with a message that names function and argument.  Lives on the stack of the call.
//   Call call{"MPI_Send"};
//   comm::Communicator* comm = call.comm(handle);
//   ...
//   if (call.failed()) return call.error();
// After a mistake the other checks do nothing and their results must not be used.  A call while MPI does not run ends
// the process: there is no error handler that could return.
#pragma once
#include <cstdint>
#include <string>
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
    any_time,  ///< also before MPI_Init and after MPI_Finalize: process() cannot be used
  };
  explicit Call(const char* function, When when = When::running) noexcept
      : function_(function), process_(Process::current()) {
    if (process_ == nullptr && when == When::running) [[unlikely]]
      end_process();
  }

  [[nodiscard]] bool failed() const noexcept { return error_ != MPI_SUCCESS; }
  [[nodiscard]] int error() const noexcept { return error_; }
  [[nodiscard]] Process& process() const noexcept { return *process_; }

  /// Raises an error; later ones are not raised any more.  Returns what the MPI function is to return.
  [[gnu::cold]] int fail(int error_class, const std::string& message);

  /// What an operation ended with becomes what the function returns.
  int finish(int error_class) {
    if (error_class == MPI_SUCCESS) [[likely]]
      return MPI_SUCCESS;
    return fail_class(error_class);
  }
  [[gnu::cold]] int fail_class(int error_class);

  /// As fail_class(), on the error handler of `comm` (none: the default one).
  [[gnu::cold]] int fail_on(MPI_Comm comm, int error_class);
  [[gnu::cold]] void fail_count(MPI_Count count, const char* argument = "count");
  [[gnu::cold]] int fail_in_place() {
    return fail(MPI_ERR_BUFFER, "argument sendbuf or recvbuf cannot be MPI_IN_PLACE here");
  }

  comm::Communicator* comm(MPI_Comm handle, const char* argument = "comm") {
    auto* communicator = handle::find<comm::Communicator>(handle);
    if (communicator == nullptr) [[unlikely]] {
      fail_handle(MPI_ERR_COMM, argument, "communicator");
    } else {
      scope_ = handle;
    }
    return communicator;
  }

  /// A communicator of one group.
  comm::Communicator* intracomm(MPI_Comm handle, const char* argument = "comm") {
    comm::Communicator* const communicator = comm(handle, argument);
    if (!failed() && communicator->is_inter()) [[unlikely]]
      fail_kind(argument, "an intercommunicator");
    return communicator;
  }
  /// A communicator of two groups.
  comm::Communicator* intercomm(MPI_Comm handle, const char* argument = "comm") {
    comm::Communicator* const communicator = comm(handle, argument);
    if (!failed() && !communicator->is_inter()) fail_kind(argument, "no intercommunicator");
    return communicator;
  }
  rma::Window* window(MPI_Win handle);
  // An object of any kind that has names and attributes, for templates.
  auto* object(MPI_Comm handle) { return comm(handle); }
  auto* object(MPI_Win handle) { return window(handle); }
  auto* object(MPI_Datatype handle) { return any_type(handle); }
  /// An error handler for objects whose own kind of function is `own`.
  std::shared_ptr<const comm::Errhandler> errhandler(MPI_Errhandler handle, comm::Errhandler::Kind own);
  void target(rma::Window* window, int rank);

  std::shared_ptr<const comm::Group> group(MPI_Group handle, const char* argument = "group") {
    std::shared_ptr<const comm::Group> group = find_group(handle);
    if (group == nullptr) fail_handle(MPI_ERR_GROUP, argument, "group");
    return group;
  }

  /// `base`, `count`, `datatype` as one buffer.  `argument` names the datatype argument in messages.
  p2p::Buffer buffer(const void* base, MPI_Count count, MPI_Datatype handle) {
    // The only one that is returned, so that it is made in its place: a copy would wait for its stores.
    p2p::Buffer buffer;
    if (count < 0) [[unlikely]]
      fail_count(count);
    const datatype::Datatype* type = this->type(handle);
    if (failed()) [[unlikely]]
      return buffer;
    if (!p2p::Buffer::fits(static_cast<std::uint64_t>(count), *type)) [[unlikely]] {
      fail(MPI_ERR_COUNT, "the message is larger than 2^63 bytes");
      return buffer;
    }
    buffer = {base, static_cast<std::uint64_t>(count), *type};
    if (is_no_memory(base) && buffer.bytes() != 0) [[unlikely]]
      fail_base(base, *type);
    return buffer;
  }

  /// MPI_BOTTOM or MPI_IN_PLACE, by one comparison.
  static bool is_no_memory(const void* base) noexcept {
    return reinterpret_cast<std::uintptr_t>(base) <= reinterpret_cast<std::uintptr_t>(MPI_IN_PLACE);
  }

  /// Of a message to or from `rank`: MPI_PROC_NULL makes what is said of it insignificant.
  p2p::Buffer buffer(const void* base, MPI_Count count, MPI_Datatype handle, int rank) {
    return rank == MPI_PROC_NULL ? p2p::Buffer{} : buffer(base, count, handle);
  }

  /// A datatype, committed or not.
  datatype::Datatype* any_type(MPI_Datatype handle, const char* argument = "datatype") {
    auto* type = handle::find<datatype::Datatype>(handle);
    if (type == nullptr) [[unlikely]]
      fail_handle(MPI_ERR_TYPE, argument, "datatype");
    return type;
  }
  /// A committed datatype.
  const datatype::Datatype* type(MPI_Datatype handle, const char* argument = "datatype") {
    const auto* type = handle::find<datatype::Datatype>(handle);
    if (type == nullptr) [[unlikely]] {
      fail_handle(MPI_ERR_TYPE, argument, "datatype");
    } else if (!type->is_committed()) [[unlikely]] {
      fail(MPI_ERR_TYPE, "the datatype is not committed");
    }
    return type;
  }

  /// A reduction that is defined for `datatype`.
  const op::Op* op(MPI_Op handle, MPI_Datatype datatype) {
    const auto* op = handle::find<op::Op>(handle);
    if (op == nullptr) [[unlikely]] {
      fail_handle(MPI_ERR_OP, "op", "operation");
      return nullptr;
    }
    const datatype::Datatype* const type = this->type(datatype);
    if (!failed() && !op->reduces(*type)) [[unlikely]]
      fail_op(*op, *type);
    return op;
  }

  /// A rank to send to, or MPI_PROC_NULL.
  void destination(const comm::Communicator* comm, int rank) {
    if (failed()) [[unlikely]]
      return;
    if ((rank < 0 || rank >= comm->remote_size()) && rank != MPI_PROC_NULL) [[unlikely]]
      fail_rank("dest", rank, *comm);
  }
  void source(const comm::Communicator* comm, int rank) {
    if (failed()) [[unlikely]]
      return;
    if ((rank < 0 || rank >= comm->remote_size()) && rank != MPI_PROC_NULL && rank != MPI_ANY_SOURCE) [[unlikely]]
      fail_rank("source", rank, *comm);
  }
  void send_tag(int tag) {
    if (tag < 0) [[unlikely]]
      fail_tag("sendtag", tag);
  }
  void receive_tag(int tag) {
    if (tag < 0 && tag != MPI_ANY_TAG) [[unlikely]]
      fail_tag("recvtag", tag);
  }
  /// A rank of the communicator; for an intercommunicator of the other side, or MPI_ROOT or MPI_PROC_NULL.
  void root(const comm::Communicator* comm, int rank);
  /// An info object or MPI_INFO_NULL.
  void info(MPI_Info handle);
  void pointer(const void* pointer, const char* argument) {
    if (pointer == nullptr) [[unlikely]]
      fail_null(argument);
  }

  /// What a handle argument points to; a null handle after a mistake.
  template <class Handle>
  Handle at(const Handle* place, const char* argument) {
    pointer(place, argument);
    return failed() ? nullptr : *place;
  }
  /// The topology of a communicator, which must be a T.
  template <class T>
  const T* topology(const comm::Communicator* comm, const char* kind) {
    const T* const found = failed() ? nullptr : comm->topology_as<T>();
    if (found == nullptr) fail(MPI_ERR_TOPOLOGY, std::string{"argument comm has no "} + kind + " topology");
    return found;
  }

  /// The end of a function that only asks: stores what `ask()` says.  Returns what the MPI function is to return.
  template <class T, class Ask>
  int answer(T* result, const char* argument, Ask&& ask) {
    pointer(result, argument);
    if (failed()) [[unlikely]]
      return error_;
    *result = ask();
    return MPI_SUCCESS;
  }
  /// The same of a new info object.
  int answer_info(info::Info::Entries entries, MPI_Info* info);
  /// The same of MPI_*_get_name.
  int answer_name(const std::string& name, char* text, int* length);

 private:
  [[noreturn, gnu::cold]] void end_process() const;
  [[gnu::cold]] void fail_handle(int error_class, const char* argument, const char* kind);
  [[gnu::cold]] void fail_kind(const char* argument, const char* kind);
  [[gnu::cold]] void fail_rank(const char* argument, int rank, const comm::Communicator& comm);
  [[gnu::cold]] void fail_op(const op::Op& op, const datatype::Datatype& type);
  [[gnu::cold]] void fail_tag(const char* argument, int tag);
  [[gnu::cold]] void fail_null(const char* argument);
  [[gnu::cold]] void fail_base(const void* base, const datatype::Datatype& type);

  [[gnu::cold]] static std::string name_of(const comm::Communicator& comm);

  const char* function_;
  Process* process_;
  ErrorScope scope_;
  int error_ = MPI_SUCCESS;
};

inline constexpr auto kAnyTime = Call::When::any_time;

/// MPI_UNDEFINED if `value` does not fit.
template <class Integer>
Integer narrowed(std::int64_t value) noexcept {
  return std::in_range<Integer>(value) ? static_cast<Integer>(value) : Integer{MPI_UNDEFINED};
}

/// What the functions that make communicators end with: from the object made, if any, which gets `topology`, to the
/// handle.
inline int hand_out(Call& call, const comm::Made& made, MPI_Comm* newcomm,
                    std::shared_ptr<const comm::Topology> topology = nullptr) {
  if (made.error != MPI_SUCCESS) return call.finish(made.error);
  if (made.comm != nullptr && topology != nullptr) made.comm->topology = std::move(topology);
  *newcomm = made.comm != nullptr ? made.comm->mpi_handle() : MPI_COMM_NULL;
  return MPI_SUCCESS;
}

}  // namespace mpi_shim::api
