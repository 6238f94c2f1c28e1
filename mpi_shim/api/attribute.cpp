// SPDX-License-Identifier: Apache-2.0
// Names and attributes of communicators, datatypes and windows, and keyvals; also the deprecated names of MPI-1.
#include <atomic>
#include <climits>
#include <cstring>
#include <optional>

#include "mpi_shim/api/forward.hpp"
#include "mpi_shim/process/user_errors.hpp"
#include "mpi_shim/rma/window.hpp"

namespace mpi_shim::api {
namespace {

auto& keys_of(Call& call, MPI_Comm /*kind*/) { return call.process().communicator_keys(); }
auto& keys_of(Call& call, MPI_Win /*kind*/) { return call.process().window_keys(); }
auto& keys_of(Call& call, MPI_Datatype /*kind*/) { return call.process().type_keys(); }

// The value of a predefined attribute, as MPI_*_get_attr returns it; empty if `keyval` is no predefined key.  Null for
// MPI_APPNUM without a value.
std::optional<const void*> predefined(Call& call, MPI_Comm /*comm*/, int keyval) {
  static const int tag_ub = INT_MAX;
  static const int any_process = MPI_ANY_SOURCE;  // every process can do input and output
  static const int no_host = MPI_PROC_NULL;
  static const int no = 0;
  static int last_code;
  static int universe;
  static int application;
  switch (keyval) {
    case MPI_TAG_UB: return &tag_ub;
    case MPI_IO: return &any_process;
    case MPI_HOST: return &no_host;
    case MPI_WTIME_IS_GLOBAL: return &no;
    // Atomic, since several threads may query the attribute at the same time.
    case MPI_LASTUSEDCODE:
      std::atomic_ref{last_code}.store(UserErrors::of_process().last_used(), std::memory_order_relaxed);
      return &last_code;
    case MPI_UNIVERSE_SIZE:
      std::atomic_ref{universe}.store(call.process().job().size(), std::memory_order_relaxed);
      return &universe;
    case MPI_APPNUM: {
      const auto number = call.process().job().client().application();
      if (!number) return nullptr;
      std::atomic_ref{application}.store(static_cast<int>(*number), std::memory_order_relaxed);
      return &application;
    }
    default: return std::nullopt;
  }
}
std::optional<const void*> predefined(Call& call, MPI_Win handle, int keyval) {
  rma::Window& window = *call.window(handle);
  switch (keyval) {
    case MPI_WIN_BASE: return reinterpret_cast<void*>(window.own().base);
    case MPI_WIN_SIZE: return &window.size_attribute;
    case MPI_WIN_DISP_UNIT: return &window.unit_attribute;
    case MPI_WIN_CREATE_FLAVOR: return &window.flavor_attribute;
    case MPI_WIN_MODEL: return &window.model_attribute;
    default: return std::nullopt;
  }
}
std::optional<const void*> predefined(Call& /*call*/, MPI_Datatype /*type*/, int /*keyval*/) { return std::nullopt; }

template <class Handle>
int create(Call& call, int (*copy)(Handle, int, void*, void*, void*, int*), int (*destroy)(Handle, int, void*, void*),
           int* keyval, void* extra_state) {
  return call.answer(keyval, keys_of(call, Handle{}).create(copy, destroy, extra_state));
}

template <class Handle>
int free_key(Call& call, int* keyval) {
  if (!keys_of(call, Handle{}).free(*keyval)) {
    call.fail(MPI_ERR_KEYVAL, "argument keyval is not a key that the application created");
  }
  *keyval = MPI_KEYVAL_INVALID;
  return MPI_SUCCESS;
}

template <class Handle>
int set(Call& call, Handle handle, int keyval, void* value) {
  auto* const object = call.object(handle);
  const auto key = keys_of(call, handle).find(keyval);
  if (key == nullptr) call.fail(MPI_ERR_KEYVAL, "argument keyval is predefined, freed or unknown");
  return call.finish(object->attributes.set(handle, key, value));
}

template <class Handle>
int get(Call& call, Handle handle, int keyval, void* result, int* flag) {
  auto* const object = call.object(handle);
  call.pointer(result, "attribute_val");
  *flag = 1;
  if (const auto value = predefined(call, handle, keyval)) {
    *flag = *value != nullptr || keyval != MPI_APPNUM;
    if (*flag != 0) *static_cast<const void**>(result) = *value;
    return MPI_SUCCESS;
  }
  if (!keys_of(call, handle).was_created(keyval))
    call.fail(MPI_ERR_KEYVAL, "argument keyval is not a key for this kind of object");
  void* value = nullptr;
  *flag = object->attributes.get(keyval, value);
  if (*flag != 0) *static_cast<void**>(result) = value;
  return MPI_SUCCESS;
}

template <class Handle>
int remove(Call& call, Handle handle, int keyval) {
  auto* const object = call.object(handle);
  if (!keys_of(call, handle).was_created(keyval)) {
    call.fail(MPI_ERR_KEYVAL, "argument keyval is not a key that the application created");
  }
  return call.finish(object->attributes.remove(handle, keyval));
}

template <class Handle>
int set_name(Call& call, Handle handle, const char* name) {
  auto* const object = call.object(handle);
  call.pointer(name, "name");
  object->name.assign(name, ::strnlen(name, MPI_MAX_OBJECT_NAME - 1));
  return MPI_SUCCESS;
}

template <class Handle>
int get_name(Call& call, Handle handle, char* name, int* length, Handle null, const char* name_of_null) {
  const auto* const object = handle == null ? nullptr : call.object(handle);
  return call.answer_name(object != nullptr ? object->name : name_of_null, name, length);
}

}  // namespace

OPAL_MPI_FORWARD(Comm_create_keyval, create)
OPAL_MPI_FORWARD(Comm_free_keyval, free_key<MPI_Comm>)
OPAL_MPI_FORWARD(Comm_set_attr, set)
OPAL_MPI_FORWARD(Comm_get_attr, get)
OPAL_MPI_FORWARD(Comm_delete_attr, remove)
OPAL_MPI_FORWARD(Type_create_keyval, create)
OPAL_MPI_FORWARD(Type_free_keyval, free_key<MPI_Datatype>)
OPAL_MPI_FORWARD(Type_set_attr, set)
OPAL_MPI_FORWARD(Type_get_attr, get)
OPAL_MPI_FORWARD(Type_delete_attr, remove)
OPAL_MPI_FORWARD(Win_create_keyval, create)
OPAL_MPI_FORWARD(Win_free_keyval, free_key<MPI_Win>)
OPAL_MPI_FORWARD(Win_set_attr, set)
OPAL_MPI_FORWARD(Win_get_attr, get)
OPAL_MPI_FORWARD(Win_delete_attr, remove)
OPAL_MPI_FORWARD(Keyval_create, create)
OPAL_MPI_FORWARD(Keyval_free, free_key<MPI_Comm>)
OPAL_MPI_FORWARD(Attr_put, set)
OPAL_MPI_FORWARD(Attr_get, get)
OPAL_MPI_FORWARD(Attr_delete, remove)

OPAL_MPI_FORWARD(Comm_set_name, set_name)
OPAL_MPI_FORWARD(Comm_get_name, get_name, MPI_COMM_NULL, "MPI_COMM_NULL")
OPAL_MPI_FORWARD(Type_set_name, set_name)
OPAL_MPI_FORWARD(Type_get_name, get_name, MPI_DATATYPE_NULL, "MPI_DATATYPE_NULL")
OPAL_MPI_FORWARD(Win_set_name, set_name)
OPAL_MPI_FORWARD(Win_get_name, get_name, MPI_WIN_NULL, "MPI_WIN_NULL")

}  // namespace mpi_shim::api
