// SPDX-License-Identifier: Apache-2.0
// Attributes of communicators and their keys, under their present and their old names.
#include <atomic>
#include <climits>

#include "mpi_shim/abi/function.hpp"
#include "mpi_shim/api/call.hpp"
#include "mpi_shim/process/user_errors.hpp"

namespace {

using mpi_shim::api::Call;
using mpi_shim::comm::Communicator;

int create(const char* function, MPI_Comm_copy_attr_function* copy, MPI_Comm_delete_attr_function* destroy, int* keyval,
           void* extra_state) {
  Call call{function};
  if (call.failed()) return call.error();
  call.pointer(keyval, "comm_keyval");
  if (call.failed()) return call.error();
  *keyval = call.process().communicator_keys().create(copy, destroy, extra_state);
  return MPI_SUCCESS;
}

int free_key(const char* function, int* keyval) {
  Call call{function};
  if (call.failed()) return call.error();
  call.pointer(keyval, "comm_keyval");
  if (call.failed()) return call.error();
  if (!call.process().communicator_keys().free(*keyval)) {
    return call.fail(MPI_ERR_KEYVAL, "argument comm_keyval is not a key of the program's own");
  }
  *keyval = MPI_KEYVAL_INVALID;
  return MPI_SUCCESS;
}

int set(const char* function, MPI_Comm comm, int keyval, void* value) {
  Call call{function};
  if (call.failed()) return call.error();
  Communicator* const communicator = call.comm(comm);
  const auto key = call.process().communicator_keys().find(keyval);
  if (key == nullptr) call.fail(MPI_ERR_KEYVAL, "argument comm_keyval is not a key that can be set");
  if (call.failed()) return call.error();
  return call.finish(communicator->attributes.set(comm, key, value));
}

/// The attributes that the standard defines; null for a key that is none of them or has no value here.
const void* predefined(Call& call, int keyval) {
  static const int tag_ub = INT_MAX;
  static const int any_process = MPI_ANY_SOURCE;  // every process can do input and output
  static const int no_host = MPI_PROC_NULL;
  static const int no = 0;
  static int last_code;
  static int universe;
  switch (keyval) {
    case MPI_TAG_UB: return &tag_ub;
    case MPI_IO: return &any_process;
    case MPI_HOST: return &no_host;
    case MPI_WTIME_IS_GLOBAL:
    case MPI_APPNUM: return &no;
    // Several threads may ask at once.
    case MPI_LASTUSEDCODE:
      std::atomic_ref{last_code}.store(mpi_shim::UserErrors::of_process().last_used(), std::memory_order_relaxed);
      return &last_code;
    case MPI_UNIVERSE_SIZE:
      std::atomic_ref{universe}.store(call.process().job().size(), std::memory_order_relaxed);
      return &universe;
    default: return nullptr;
  }
}

int get(const char* function, MPI_Comm comm, int keyval, void* result, int* flag) {
  Call call{function};
  if (call.failed()) return call.error();
  Communicator* const communicator = call.comm(comm);
  call.pointer(result, "attribute_val");
  call.pointer(flag, "flag");
  if (call.failed()) return call.error();
  if (const void* value = predefined(call, keyval)) {
    *static_cast<const void**>(result) = value;
    *flag = 1;
    return MPI_SUCCESS;
  }
  if (!call.process().communicator_keys().was_created(keyval)) {
    return call.fail(MPI_ERR_KEYVAL, "argument comm_keyval is not a key");
  }
  void* value = nullptr;
  *flag = communicator->attributes.get(keyval, value);
  if (*flag != 0) *static_cast<void**>(result) = value;
  return MPI_SUCCESS;
}

int remove(const char* function, MPI_Comm comm, int keyval) {
  Call call{function};
  if (call.failed()) return call.error();
  Communicator* const communicator = call.comm(comm);
  if (!call.failed() && !call.process().communicator_keys().was_created(keyval)) {
    call.fail(MPI_ERR_KEYVAL, "argument comm_keyval is not a key that can be deleted");
  }
  if (call.failed()) return call.error();
  return call.finish(communicator->attributes.remove(comm, keyval));
}

}  // namespace

OPAL_MPI_FUNCTION(int, Comm_create_keyval,
                  (MPI_Comm_copy_attr_function * copy, MPI_Comm_delete_attr_function* destroy, int* keyval,
                   void* extra_state)) {
  return create("MPI_Comm_create_keyval", copy, destroy, keyval, extra_state);
}
OPAL_MPI_FUNCTION(int, Keyval_create,
                  (MPI_Copy_function * copy, MPI_Delete_function* destroy, int* keyval, void* extra_state)) {
  return create("MPI_Keyval_create", copy, destroy, keyval, extra_state);
}
OPAL_MPI_FUNCTION(int, Comm_free_keyval, (int* keyval)) { return free_key("MPI_Comm_free_keyval", keyval); }
OPAL_MPI_FUNCTION(int, Keyval_free, (int* keyval)) { return free_key("MPI_Keyval_free", keyval); }
OPAL_MPI_FUNCTION(int, Comm_set_attr, (MPI_Comm comm, int keyval, void* value)) {
  return set("MPI_Comm_set_attr", comm, keyval, value);
}
OPAL_MPI_FUNCTION(int, Attr_put, (MPI_Comm comm, int keyval, void* value)) {
  return set("MPI_Attr_put", comm, keyval, value);
}
OPAL_MPI_FUNCTION(int, Comm_get_attr, (MPI_Comm comm, int keyval, void* value, int* flag)) {
  return get("MPI_Comm_get_attr", comm, keyval, value, flag);
}
OPAL_MPI_FUNCTION(int, Attr_get, (MPI_Comm comm, int keyval, void* value, int* flag)) {
  return get("MPI_Attr_get", comm, keyval, value, flag);
}
OPAL_MPI_FUNCTION(int, Comm_delete_attr, (MPI_Comm comm, int keyval)) {
  return remove("MPI_Comm_delete_attr", comm, keyval);
}
OPAL_MPI_FUNCTION(int, Attr_delete, (MPI_Comm comm, int keyval)) { return remove("MPI_Attr_delete", comm, keyval); }
