// SPDX-License-Identifier: Apache-2.0
// Callbacks of Fortran applications: operations, error handlers, attribute callbacks, generalized requests.
// A C operation or error handler has no argument for user data.  So each Fortran function of these two kinds gets its
// own C entry function, which calls it.  An entry stays in use until the process ends.  Keyvals and generalized
// requests have such an argument, extra_state, which holds the Fortran callbacks. LOGICAL and statuses are passed on
// without conversion (convert.hpp).
#include <array>
#include <deque>
#include <mutex>
#include <utility>

#include "mpi_shim/fortran/convert.hpp"

namespace mpi_shim::fortran {
namespace {

/// Limit for the different Fortran functions of one kind; far more than applications have.
constexpr std::size_t kFunctions = 128;
using Numbers = std::make_index_sequence<kFunctions>;

using Operation = void(void* in, void* inout, MPI_Fint* length, MPI_Fint* datatype);
using OnError = void(MPI_Fint* object, MPI_Fint* code);

// The Fortran functions by number.  The entry functions read them without a lock, since an element never changes.
std::array<Operation*, kFunctions> operations;
template <class Handle>
std::array<OnError*, kFunctions> handlers;

template <std::size_t n>
void call_operation(void* in, void* inout, int* length, MPI_Datatype* datatype) {
  MPI_Fint integer = to_integer(*datatype);
  operations[n](in, inout, length, &integer);
}
template <class Handle, std::size_t n>
void call_handler(Handle* object, int* code, ...) {
  MPI_Fint integer = to_integer(*object);
  handlers<Handle>[n](&integer, code);
}

template <std::size_t... n>
MPI_User_function* operation_entry(std::size_t number, std::index_sequence<n...> /*all*/) {
  static constexpr MPI_User_function* kEntries[] = {call_operation<n>...};
  return kEntries[number];
}
template <class Handle, std::size_t... n>
auto* handler_entry(std::size_t number, std::index_sequence<n...> /*all*/) {
  static constexpr void (*kEntries[])(Handle*, int*, ...) = {call_handler<Handle, n>...};
  return kEntries[number];
}

/// The number of `function` among `functions`; kFunctions: there are too many.  Thread-safe.
template <class Function>
std::size_t number_of(Function* function, std::array<Function*, kFunctions>& functions) {
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  for (std::size_t n = 0; n < kFunctions; ++n) {
    if (functions[n] == nullptr) functions[n] = function;
    if (functions[n] == function) return n;
  }
  return kFunctions;
}

/// The callbacks of a keyval and its extra_state.  `Value`: the type of attribute values and extra_state.  It is
/// MPI_Aint, and MPI_Fint for MPI_Keyval_create of MPI-1.
template <class Value>
struct Key {
  using Copy = void(MPI_Fint* object, MPI_Fint* keyval, Value* extra_state, Value* in, Value* out, MPI_Fint* flag,
                    MPI_Fint* ierror);
  using Delete = void(MPI_Fint* object, MPI_Fint* keyval, Value* value, Value* extra_state, MPI_Fint* ierror);
  Copy* copy;
  Delete* remove;
  Value extra_state;
};

/// Stores a copy of `state` until the process ends: attributes may outlive their freed keyval and still need its
/// callbacks.
template <class State>
State* keep(const State& state) {
  static std::mutex mutex;
  static std::deque<State> kept;
  const std::scoped_lock lock(mutex);
  return &kept.emplace_back(state);
}

template <class Handle, class Value>
int copy_attribute(Handle object, int keyval, void* extra_state, void* in, void* out, int* flag) {
  auto* key = static_cast<Key<Value>*>(extra_state);
  MPI_Fint integer = to_integer(object);
  auto value = static_cast<Value>(value_at(in));
  Value copied = 0;
  MPI_Fint ierror = MPI_SUCCESS;
  key->copy(&integer, &keyval, &key->extra_state, &value, &copied, flag, &ierror);
  const bool same_address = reinterpret_cast<MPI_Aint>(in) == copied;  // C has set it, and C may read the copy
  if (ierror == MPI_SUCCESS && *flag != 0) *static_cast<void**>(out) = same_address ? in : new_cell(copied);
  return ierror;
}

template <class Handle, class Value>
int delete_attribute(Handle object, int keyval, void* value, void* extra_state) {
  auto* key = static_cast<Key<Value>*>(extra_state);
  MPI_Fint integer = to_integer(object);
  auto given = static_cast<Value>(value_at(value));
  MPI_Fint ierror = MPI_SUCCESS;
  key->remove(&integer, &keyval, &given, &key->extra_state, &ierror);
  if (ierror == MPI_SUCCESS) free_cell(value);
  return ierror;
}

/// The callbacks of a generalized request.  mpi_grequest_start_() allocates it; free_request() deletes it.
struct Generalized {
  void (*query)(MPI_Aint* extra_state, MPI_Fint* status, MPI_Fint* ierror);
  void (*free)(MPI_Aint* extra_state, MPI_Fint* ierror);
  void (*cancel)(MPI_Aint* extra_state, MPI_Fint* complete, MPI_Fint* ierror);
  MPI_Aint* extra_state;  // the application's variable, not a copy: the callbacks may change it
};

int query_request(void* state, MPI_Status* status) {
  auto* request = static_cast<Generalized*>(state);
  MPI_Fint ierror = MPI_SUCCESS;
  request->query(request->extra_state, reinterpret_cast<MPI_Fint*>(status), &ierror);
  return ierror;
}
int free_request(void* state) {
  auto* request = static_cast<Generalized*>(state);
  MPI_Fint ierror = MPI_SUCCESS;
  request->free(request->extra_state, &ierror);
  delete request;
  return ierror;
}
int cancel_request(void* state, int complete) {
  auto* request = static_cast<Generalized*>(state);
  MPI_Fint ierror = MPI_SUCCESS;
  request->cancel(request->extra_state, &complete, &ierror);
  return ierror;
}

}  // namespace
}  // namespace mpi_shim::fortran

using namespace mpi_shim::fortran;

extern "C" {

OPAL_EXPORT void mpi_op_create_(Operation* function, const MPI_Fint* commute, MPI_Fint* op, MPI_Fint* ierror) {
  const std::size_t number = number_of(function, operations);
  *ierror = number == kFunctions ? MPI_ERR_NO_MEM
                                 : MPI_Op_create(operation_entry(number, Numbers{}), *commute, Out<MPI_Op>{op});
}
OPAL_EXPORT void mpi_comm_create_errhandler_(OnError* function, MPI_Fint* errhandler, MPI_Fint* ierror) {
  const std::size_t number = number_of(function, handlers<MPI_Comm>);
  *ierror = number == kFunctions ? MPI_ERR_NO_MEM
                                 : MPI_Comm_create_errhandler(handler_entry<MPI_Comm>(number, Numbers{}),
                                                              Out<MPI_Errhandler>{errhandler});
}
OPAL_EXPORT void mpi_errhandler_create_(OnError* function, MPI_Fint* errhandler, MPI_Fint* ierror) {
  mpi_comm_create_errhandler_(function, errhandler, ierror);
}
OPAL_EXPORT void mpi_win_create_errhandler_(OnError* function, MPI_Fint* errhandler, MPI_Fint* ierror) {
  const std::size_t number = number_of(function, handlers<MPI_Win>);
  *ierror = number == kFunctions
                ? MPI_ERR_NO_MEM
                : MPI_Win_create_errhandler(handler_entry<MPI_Win>(number, Numbers{}), Out<MPI_Errhandler>{errhandler});
}

OPAL_EXPORT void mpi_grequest_start_(decltype(Generalized::query) query, decltype(Generalized::free) free,
                                     decltype(Generalized::cancel) cancel, MPI_Aint* extra_state, MPI_Fint* request,
                                     MPI_Fint* ierror) {
  auto* state = new Generalized{query, free, cancel, extra_state};
  *ierror = MPI_Grequest_start(query_request, free_request, cancel_request, state, Out<MPI_Request>{request});
  if (*ierror != MPI_SUCCESS) delete state;
}

/// Defines MPI_*_create_keyval and the predefined callbacks (MPI_*_DUP_FN etc.).  An application passes a predefined
/// callback to MPI_*_create_keyval by its address, like one of its own, so each is a Fortran-callable function.
#define OPAL_MPI_FORTRAN_KEYVAL(create, prefix, Create, type, Value)                                          \
  OPAL_EXPORT void mpi_##create##_(Key<Value>::Copy* copy, Key<Value>::Delete* remove, MPI_Fint* keyval,      \
                                   Value* extra_state, MPI_Fint* ierror) {                                    \
    *ierror = MPI_##Create(copy_attribute<type, Value>, delete_attribute<type, Value>, keyval,                \
                           keep(Key<Value>{copy, remove, *extra_state}));                                     \
  }                                                                                                           \
  OPAL_EXPORT void mpi_##prefix##null_copy_fn_(MPI_Fint*, MPI_Fint*, Value*, Value*, Value*, MPI_Fint* flag,  \
                                               MPI_Fint* ierror) {                                            \
    *flag = 0;                                                                                                \
    *ierror = MPI_SUCCESS;                                                                                    \
  }                                                                                                           \
  OPAL_EXPORT void mpi_##prefix##dup_fn_(MPI_Fint*, MPI_Fint*, Value*, Value* in, Value* out, MPI_Fint* flag, \
                                         MPI_Fint* ierror) {                                                  \
    *out = *in;                                                                                               \
    *flag = 1;                                                                                                \
    *ierror = MPI_SUCCESS;                                                                                    \
  }                                                                                                           \
  OPAL_EXPORT void mpi_##prefix##null_delete_fn_(MPI_Fint*, MPI_Fint*, Value*, Value*, MPI_Fint* ierror) {    \
    *ierror = MPI_SUCCESS;                                                                                    \
  }
OPAL_MPI_FORTRAN_KEYVAL(comm_create_keyval, comm_, Comm_create_keyval, MPI_Comm, MPI_Aint)
OPAL_MPI_FORTRAN_KEYVAL(type_create_keyval, type_, Type_create_keyval, MPI_Datatype, MPI_Aint)
OPAL_MPI_FORTRAN_KEYVAL(win_create_keyval, win_, Win_create_keyval, MPI_Win, MPI_Aint)
OPAL_MPI_FORTRAN_KEYVAL(keyval_create, , Comm_create_keyval, MPI_Comm, MPI_Fint)

}  // extern "C"
