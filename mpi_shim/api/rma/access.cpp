// SPDX-License-Identifier: Apache-2.0
// One-sided accesses: MPI_Put, Get, Accumulate, Get_accumulate, Fetch_and_op, Compare_and_swap and their R forms.
#include <string>

#include "mpi_shim/abi/function.hpp"
#include "mpi_shim/api/call.hpp"
#include "mpi_shim/request/immediate.hpp"
#include "mpi_shim/rma/window.hpp"

namespace {

using mpi_shim::api::Call;
using mpi_shim::datatype::Datatype;
using mpi_shim::datatype::ElementClass;
using mpi_shim::op::Op;
using mpi_shim::op::OpKind;
using mpi_shim::p2p::Buffer;
using mpi_shim::rma::Place;
using mpi_shim::rma::Window;

/// Where at the target, as all these functions say it.
struct There {
  int rank;
  MPI_Aint displacement;
  MPI_Count count;
  MPI_Datatype datatype;
};

Place place(Call& call, Window* window, const There& there) {
  call.target(window, there.rank);
  if (there.count < 0) call.fail_count(there.count);
  const Datatype* type = call.type(there.datatype, "target_datatype");
  return {there.rank, there.displacement, static_cast<std::uint64_t>(there.count), type};
}

/// What an access to MPI_PROC_NULL does: nothing.
int nothing(MPI_Request* request) {
  if (request != nullptr) *request = mpi_shim::done_send_request().mpi_handle();
  return MPI_SUCCESS;
}

int finish(Call& call, int error, const char* what) {
  if (error == MPI_SUCCESS) [[likely]]
    return MPI_SUCCESS;
  if (error == MPI_ERR_RMA_SYNC) {
    return call.fail(error, "no epoch is open in which the target may be accessed by this function");
  }
  if (error == MPI_ERR_RMA_RANGE) return call.fail(error, "what is accessed is not all in the target's window memory");
  if (error == MPI_ERR_TRUNCATE) return call.fail(error, std::string{what} + " has not room for all the data");
  return call.fail_class(error);
}

enum class Form { plain, request };

/// An R form has to be given somewhere to leave its request.
bool lacks_request(Call& call, Form form, const MPI_Request* request) {
  if (form == Form::request) call.pointer(request, "request");
  return call.failed();
}

/// A put or a get; `what` names the buffer that the data go to.
int access(const char* function, int (Window::*operation)(const Buffer&, const Place&, MPI_Request*), const char* what,
           const void* origin, MPI_Count count, MPI_Datatype datatype, const There& there, MPI_Win win, Form form,
           MPI_Request* request) {
  Call call{function};
  if (call.failed()) return call.error();
  Window* const window = call.window(win);
  const Buffer buffer = call.buffer(origin, count, datatype);
  const Place target = place(call, window, there);
  if (lacks_request(call, form, request)) return call.error();
  if (there.rank == MPI_PROC_NULL) return nothing(request);
  return finish(call, (window->*operation)(buffer, target, request), what);
}

int put(const char* function, const void* origin, MPI_Count count, MPI_Datatype datatype, const There& there,
        MPI_Win win, Form form, MPI_Request* request) {
  return access(function, &Window::put, "the target's buffer", origin, count, datatype, there, win, form, request);
}

int get(const char* function, void* origin, MPI_Count count, MPI_Datatype datatype, const There& there, MPI_Win win,
        Form form, MPI_Request* request) {
  return access(function, &Window::get, "the origin's buffer", origin, count, datatype, there, win, form, request);
}

/// An operation for accumulation: predefined, and defined on the target's elements if there are any.
OpKind accumulation(Call& call, MPI_Op handle, const Place& target) {
  const auto* op = mpi_shim::handle::find<Op>(handle);
  if (call.failed()) return OpKind::no_op;
  if (op == nullptr || op->kind() == OpKind::user) {
    call.fail(MPI_ERR_OP, "argument op is not a predefined operation");
  } else if (target.count != 0 && target.type->size() != 0 && !accumulates(op->kind(), *target.type)) {
    call.fail(MPI_ERR_OP, std::string{op->name()} + " is not defined for the elements of argument target_datatype");
  } else {
    return op->kind();
  }
  return OpKind::no_op;
}

/// Accumulation wants the same elements on both sides.
void same_elements(Call& call, const Buffer& buffer, const Datatype* type) {
  if (call.failed() || buffer.bytes() == 0 || type->size() == 0) return;
  if (buffer.type().signature().uniform() != type->signature().uniform()) {
    call.fail(MPI_ERR_TYPE, "the origin's and the target's datatypes are not made of the same predefined one");
  }
}

int accumulate(const char* function, const void* origin, MPI_Count count, MPI_Datatype datatype, const There& there,
               MPI_Op op, MPI_Win win, Form form, MPI_Request* request) {
  Call call{function};
  if (call.failed()) return call.error();
  Window* const window = call.window(win);
  const Buffer buffer = call.buffer(origin, count, datatype);
  const Place target = place(call, window, there);
  const OpKind kind = accumulation(call, op, target);
  same_elements(call, buffer, target.type);
  if (lacks_request(call, form, request)) return call.error();
  if (there.rank == MPI_PROC_NULL) return nothing(request);
  return finish(call, window->update(kind, buffer, nullptr, target, request), "one of the two buffers");
}

struct Result {
  void* address;
  MPI_Count count;
  MPI_Datatype datatype;
};

int get_accumulate(const char* function, const void* origin, MPI_Count count, MPI_Datatype datatype,
                   const Result& result, const There& there, MPI_Op op, MPI_Win win, Form form, MPI_Request* request) {
  Call call{function};
  if (call.failed()) return call.error();
  Window* const window = call.window(win);
  const Place target = place(call, window, there);
  const OpKind kind = accumulation(call, op, target);
  Buffer buffer;  // not looked at for MPI_NO_OP
  if (kind != OpKind::no_op) buffer = call.buffer(origin, count, datatype);
  const Buffer fetched = call.buffer(result.address, result.count, result.datatype);
  same_elements(call, buffer, target.type);
  if (lacks_request(call, form, request)) return call.error();
  if (there.rank == MPI_PROC_NULL) return nothing(request);
  return finish(call, window->update(kind, buffer, &fetched, target, request), "one of the buffers");
}

/// MPI_Compare_and_swap takes integers, logicals and bytes.
bool can_swap(const Datatype& type) {
  if (!type.element()) return false;
  switch (mpi_shim::datatype::info(*type.element()).element_class) {
    case ElementClass::byte:
    case ElementClass::integer:
    case ElementClass::logical: return true;
    default: return false;
  }
}

}  // namespace

#define OPAL_MPI_ONE_SIDED(Function, name, pointer)                                                                \
  OPAL_MPI_FUNCTION(int, Function,                                                                                 \
                    (pointer origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,         \
                     MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win win)) {         \
    return name("MPI_" #Function, origin_addr, origin_count, origin_datatype,                                      \
                {target_rank, target_disp, target_count, target_datatype}, win, Form::plain, nullptr);             \
  }                                                                                                                \
  OPAL_MPI_FUNCTION(int, Function##_c,                                                                             \
                    (pointer origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype, int target_rank,   \
                     MPI_Aint target_disp, MPI_Count target_count, MPI_Datatype target_datatype, MPI_Win win)) {   \
    return name("MPI_" #Function "_c", origin_addr, origin_count, origin_datatype,                                 \
                {target_rank, target_disp, target_count, target_datatype}, win, Form::plain, nullptr);             \
  }                                                                                                                \
  OPAL_MPI_FUNCTION(                                                                                               \
      int, R##name,                                                                                                \
      (pointer origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank, MPI_Aint target_disp, \
       int target_count, MPI_Datatype target_datatype, MPI_Win win, MPI_Request* request)) {                       \
    return name("MPI_R" #name, origin_addr, origin_count, origin_datatype,                                         \
                {target_rank, target_disp, target_count, target_datatype}, win, Form::request, request);           \
  }                                                                                                                \
  OPAL_MPI_FUNCTION(int, R##name##_c,                                                                              \
                    (pointer origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype, int target_rank,   \
                     MPI_Aint target_disp, MPI_Count target_count, MPI_Datatype target_datatype, MPI_Win win,      \
                     MPI_Request* request)) {                                                                      \
    return name("MPI_R" #name "_c", origin_addr, origin_count, origin_datatype,                                    \
                {target_rank, target_disp, target_count, target_datatype}, win, Form::request, request);           \
  }
OPAL_MPI_ONE_SIDED(Put, put, const void*)
OPAL_MPI_ONE_SIDED(Get, get, void*)

#define OPAL_MPI_ACCUMULATE(suffix, Count)                                                                             \
  OPAL_MPI_FUNCTION(                                                                                                   \
      int, Accumulate##suffix,                                                                                         \
      (const void* origin_addr, Count origin_count, MPI_Datatype origin_datatype, int target_rank,                     \
       MPI_Aint target_disp, Count target_count, MPI_Datatype target_datatype, MPI_Op op, MPI_Win win)) {              \
    return accumulate("MPI_Accumulate" #suffix, origin_addr, origin_count, origin_datatype,                            \
                      {target_rank, target_disp, target_count, target_datatype}, op, win, Form::plain, nullptr);       \
  }                                                                                                                    \
  OPAL_MPI_FUNCTION(int, Raccumulate##suffix,                                                                          \
                    (const void* origin_addr, Count origin_count, MPI_Datatype origin_datatype, int target_rank,       \
                     MPI_Aint target_disp, Count target_count, MPI_Datatype target_datatype, MPI_Op op, MPI_Win win,   \
                     MPI_Request* request)) {                                                                          \
    return accumulate("MPI_Raccumulate" #suffix, origin_addr, origin_count, origin_datatype,                           \
                      {target_rank, target_disp, target_count, target_datatype}, op, win, Form::request, request);     \
  }                                                                                                                    \
  OPAL_MPI_FUNCTION(int, Get_accumulate##suffix,                                                                       \
                    (const void* origin_addr, Count origin_count, MPI_Datatype origin_datatype, void* result_addr,     \
                     Count result_count, MPI_Datatype result_datatype, int target_rank, MPI_Aint target_disp,          \
                     Count target_count, MPI_Datatype target_datatype, MPI_Op op, MPI_Win win)) {                      \
    return get_accumulate("MPI_Get_accumulate" #suffix, origin_addr, origin_count, origin_datatype,                    \
                          {result_addr, result_count, result_datatype},                                                \
                          {target_rank, target_disp, target_count, target_datatype}, op, win, Form::plain, nullptr);   \
  }                                                                                                                    \
  OPAL_MPI_FUNCTION(                                                                                                   \
      int, Rget_accumulate##suffix,                                                                                    \
      (const void* origin_addr, Count origin_count, MPI_Datatype origin_datatype, void* result_addr,                   \
       Count result_count, MPI_Datatype result_datatype, int target_rank, MPI_Aint target_disp, Count target_count,    \
       MPI_Datatype target_datatype, MPI_Op op, MPI_Win win, MPI_Request* request)) {                                  \
    return get_accumulate("MPI_Rget_accumulate" #suffix, origin_addr, origin_count, origin_datatype,                   \
                          {result_addr, result_count, result_datatype},                                                \
                          {target_rank, target_disp, target_count, target_datatype}, op, win, Form::request, request); \
  }
OPAL_MPI_ACCUMULATE(, int)
OPAL_MPI_ACCUMULATE(_c, MPI_Count)

OPAL_MPI_FUNCTION(int, Fetch_and_op,
                  (const void* origin_addr, void* result_addr, MPI_Datatype datatype, int target_rank,
                   MPI_Aint target_disp, MPI_Op op, MPI_Win win)) {
  return get_accumulate("MPI_Fetch_and_op", origin_addr, 1, datatype, {result_addr, 1, datatype},
                        {target_rank, target_disp, 1, datatype}, op, win, Form::plain, nullptr);
}

OPAL_MPI_FUNCTION(int, Compare_and_swap,
                  (const void* origin_addr, const void* compare_addr, void* result_addr, MPI_Datatype datatype,
                   int target_rank, MPI_Aint target_disp, MPI_Win win)) {
  Call call{"MPI_Compare_and_swap"};
  if (call.failed()) return call.error();
  Window* const window = call.window(win);
  const Place target = place(call, window, {target_rank, target_disp, 1, datatype});
  call.pointer(origin_addr, "origin_addr");
  call.pointer(compare_addr, "compare_addr");
  call.pointer(result_addr, "result_addr");
  if (!call.failed() && !can_swap(*target.type)) {
    call.fail(MPI_ERR_TYPE, "argument datatype is not an integer, logical or byte type");
  }
  if (call.failed()) return call.error();
  if (target_rank == MPI_PROC_NULL) return MPI_SUCCESS;
  return finish(call, window->compare_and_swap(origin_addr, compare_addr, result_addr, target), "the target's buffer");
}
