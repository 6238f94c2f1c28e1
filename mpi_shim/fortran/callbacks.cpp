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

/// Limit for the different Fortran functions of one `Entries` type; far more than applications have.
constexpr std::size_t kFunctions = 128;

/// Maps each Fortran function of type `F` to a C function of type `C`: `Call<n>::call`, which calls `functions[n]`.
/// `functions` is static, so each specialization has one object.  `Call<n>::call` reads functions[n] without the mutex:
/// an element never changes after entry_of() has returned its entry.
template <class F, class C, template <std::size_t> class Call>
class Entries {
 public:
  /// The C function that calls `function`; null if there are more than kFunctions.  Thread-safe.
  C* entry_of(F* function) {
    const std::scoped_lock lock(mutex_);
    for (std::size_t n = 0; n < kFunctions; ++n) {
      if (functions[n] == nullptr) functions[n] = function;
      if (functions[n] == function) return entries(std::make_index_sequence<kFunctions>{})[n];
    }
    return nullptr;
  }
  static inline std::array<F*, kFunctions> functions{};

 private:
  template <std::size_t... n>
  static std::array<C*, kFunctions> entries(std::index_sequence<n...> /*all*/) {
    return {Call<n>::call...};
  }
  std::mutex mutex_;
};

using Operation = void(void* in, void* inout, MPI_Fint* length, MPI_Fint* datatype);
using OnError = void(MPI_Fint* object, MPI_Fint* code);

template <std::size_t n>
struct CallOperation {
  static void call(void* in, void* inout, int* length, MPI_Datatype* datatype);
};
using Operations = Entries<Operation, MPI_User_function, CallOperation>;
template <std::size_t n>
void CallOperation<n>::call(void* in, void* inout, int* length, MPI_Datatype* datatype) {
  MPI_Fint integer = to_integer(*datatype);
  Operations::functions[n](in, inout, length, &integer);
}

/// Error handlers of communicators or windows.
template <class Handle>
struct ErrorOf {
  template <std::size_t n>
  struct CallHandler {
    static void call(Handle* object, int* code, ...);
  };
  using Handlers = Entries<OnError, void(Handle*, int*, ...), CallHandler>;
};
template <class Handle>
template <std::size_t n>
void ErrorOf<Handle>::CallHandler<n>::call(Handle* object, int* code, ...) {
  MPI_Fint integer = to_integer(*object);
  Handlers::functions[n](&integer, code);
}

Operations operations;
ErrorOf<MPI_Comm>::Handlers comm_handlers;
ErrorOf<MPI_Win>::Handlers win_handlers;

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
  auto value = static_cast<Value>(reinterpret_cast<MPI_Aint>(in));
  Value copied = 0;
  MPI_Fint ierror = MPI_SUCCESS;
  key->copy(&integer, &keyval, &key->extra_state, &value, &copied, flag, &ierror);
  *static_cast<MPI_Aint*>(out) = copied;
  return ierror;
}

template <class Handle, class Value>
int delete_attribute(Handle object, int keyval, void* value, void* extra_state) {
  auto* key = static_cast<Key<Value>*>(extra_state);
  MPI_Fint integer = to_integer(object);
  auto given = static_cast<Value>(reinterpret_cast<MPI_Aint>(value));
  MPI_Fint ierror = MPI_SUCCESS;
  key->remove(&integer, &keyval, &given, &key->extra_state, &ierror);
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
  MPI_User_function* entry = operations.entry_of(function);
  *ierror = entry == nullptr ? MPI_ERR_NO_MEM : MPI_Op_create(entry, *commute, Out<MPI_Op>{op});
}
OPAL_EXPORT void mpi_comm_create_errhandler_(OnError* function, MPI_Fint* errhandler, MPI_Fint* ierror) {
  MPI_Comm_errhandler_function* entry = comm_handlers.entry_of(function);
  *ierror = entry == nullptr ? MPI_ERR_NO_MEM : MPI_Comm_create_errhandler(entry, Out<MPI_Errhandler>{errhandler});
}
OPAL_EXPORT void mpi_errhandler_create_(OnError* function, MPI_Fint* errhandler, MPI_Fint* ierror) {
  mpi_comm_create_errhandler_(function, errhandler, ierror);
}
OPAL_EXPORT void mpi_win_create_errhandler_(OnError* function, MPI_Fint* errhandler, MPI_Fint* ierror) {
  MPI_Win_errhandler_function* entry = win_handlers.entry_of(function);
  *ierror = entry == nullptr ? MPI_ERR_NO_MEM : MPI_Win_create_errhandler(entry, Out<MPI_Errhandler>{errhandler});
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
