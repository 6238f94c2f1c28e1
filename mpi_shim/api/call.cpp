// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/api/call.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "mpi_shim/base/error_class.hpp"
#include "mpi_shim/process/raise.hpp"
#include "mpi_shim/process/user_errors.hpp"
#include "mpi_shim/rma/window.hpp"

namespace mpi_shim::api {

void Call::end_process() const {
  raise({}, MPI_ERR_OTHER, function_, "MPI is not running");
  ::_exit(MPI_ERR_OTHER);  // not reached unless another thread starts MPI meanwhile
}

void Call::fail(int error_class, const std::string& message) {
  throw Failed{raise(scope_, error_class, function_, message.c_str())};
}

void Call::fail_class(int error_class) { throw Failed{raise_class(error_class)}; }

int Call::raise_class(int error_class) {
  const char* text = error_class_text(error_class);
  if (text != nullptr) return raise(scope_, error_class, function_, text);
  const auto own = UserErrors::of_process().find(error_class);
  const bool has_text = own && own->text && !own->text->empty();
  return raise(scope_, error_class, function_,
               has_text ? own->text->c_str() : "an error class or code of the application");
}

int Call::raise_on(MPI_Comm comm, int error_class) {
  if (comm != MPI_COMM_NULL) scope_ = comm;
  return raise_class(error_class);
}

rma::Window* Call::window(MPI_Win handle) {
  auto* const window = find<rma::Window>(handle, MPI_ERR_WIN, "win", "window");
  scope_ = handle;
  return window;
}

comm::ErrhandlerRef Call::errhandler(MPI_Errhandler handle, comm::Errhandler::Kind own) {
  using Kind = comm::Errhandler::Kind;
  comm::Errhandler* const handler = find_errhandler(handle);
  const bool fits =
      handler != nullptr &&
      (handler->kind == own || (handler->kind != Kind::comm_function && handler->kind != Kind::win_function));
  if (!fits) {
    fail(MPI_ERR_ERRHANDLER, fmt::format("argument errhandler is not a valid error handler for {}",
                                         own == Kind::comm_function ? "communicators" : "windows"));
  }
  return comm::ErrhandlerRef::share(*handler);
}

int Call::answer_info(info::Info::Entries entries, MPI_Info* info) {
  auto made = handle::create<info::Info>(std::move(entries));
  if (!made) fail_class(MPI_ERR_NO_MEM);
  *info = handle::to_handle<MPI_Info>(*made->detach());  // the application's reference
  return MPI_SUCCESS;
}

int Call::answer_name(const std::string& name, char* text, int* length) {
  pointer(text, "name");
  *std::copy(name.begin(), name.end(), text) = '\0';
  return answer(length, static_cast<int>(name.size()));
}

void Call::target(rma::Window* window, int rank, const char* argument) {
  if ((rank < 0 || rank >= window->size()) && rank != MPI_PROC_NULL) [[unlikely]]
    fail_rank(argument, rank, window->size(), "the window");
}

void Call::info(MPI_Info handle) {
  if (handle != MPI_INFO_NULL) find<info::Info>(handle, MPI_ERR_INFO, "info", "info object");
}

void Call::root(const comm::Communicator* comm, int rank) {
  if (rank >= 0 && rank < comm->remote_size()) return;
  if (comm->is_inter() && (rank == MPI_ROOT || rank == MPI_PROC_NULL)) return;
  fail_rank("root", rank, *comm, MPI_ERR_ROOT);
}

void Call::fail_handle(int error_class, const char* argument, const char* kind) {
  fail(error_class, fmt::format("argument {} is not a valid {}", argument, kind));
}

void Call::fail_kind(const char* argument, const char* kind) {
  fail(MPI_ERR_COMM, fmt::format("argument {} is {}", argument, kind));
}

void Call::fail_count(MPI_Count count, const char* argument) {
  fail(MPI_ERR_COUNT, fmt::format("argument {} is negative: {}", argument, count));
}

void Call::fail_rank(const char* argument, int rank, const comm::Communicator& comm, int error_class) {
  fail_rank(argument, rank, comm.remote_size(), name_of(comm), error_class);
}

void Call::fail_rank(const char* argument, int rank, int size, std::string_view where, int error_class) {
  fail(error_class, fmt::format("argument {} is {}, but {} has the ranks 0 to {}", argument, rank, where, size - 1));
}

void Call::fail_op(const op::Op& op, const datatype::Datatype& type) {
  fail(MPI_ERR_OP, fmt::format("{} is not defined for {}", op.name(),
                               type.name.empty() ? std::string{"a derived datatype"} : type.name));
}

void Call::fail_tag(const char* argument, int tag) {
  fail(MPI_ERR_TAG, fmt::format("argument {} is {}, but tags are 0 or more", argument, tag));
}

void Call::fail_null(const char* argument) {
  constexpr std::array<std::string_view, 7> kBuffers = {"buf",         "buffer",       "inbuf",      "outbuf",
                                                        "origin_addr", "compare_addr", "result_addr"};
  const bool is_buffer = std::find(kBuffers.begin(), kBuffers.end(), argument) != kBuffers.end();
  fail(is_buffer ? MPI_ERR_BUFFER : MPI_ERR_ARG, fmt::format("argument {} is a null pointer", argument));
}

void Call::check_base(const void* base, const datatype::Datatype& type) {
  if (base == MPI_IN_PLACE) {
    fail_in_place();
  } else if (type.is_predefined()) {  // a derived type may hold addresses, relative to MPI_BOTTOM
    fail_null("buf");
  }
}

std::string Call::name_of(const comm::Communicator& comm) {
  return comm.name.empty() ? std::string{"the communicator"} : "communicator " + comm.name;
}

}  // namespace mpi_shim::api
