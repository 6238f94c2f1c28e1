// SPDX-License-Identifier: Apache-2.0
// Attributes of communicators, datatypes and windows, and their keys; with the names that MPI-1 had.
#include <atomic>
#include <climits>
#include <optional>

#include "mpi_shim/abi/forward.hpp"
#include "mpi_shim/api/call.hpp"
#include "mpi_shim/attribute/type_attributes.hpp"
#include "mpi_shim/process/user_errors.hpp"
#include "mpi_shim/rma/window.hpp"

namespace {

using mpi_shim::api::Call;
using mpi_shim::attribute::Attributes;

auto& keys_of(Call& call, MPI_Comm /*kind*/) { return call.process().communicator_keys(); }
auto& keys_of(Call& call, MPI_Win /*kind*/) { return call.process().window_keys(); }
auto& keys_of(Call& call, MPI_Datatype /*kind*/) { return call.process().type_attributes().keys(); }

// Of an object; null if it is not valid, or a type without any.
Attributes<MPI_Comm>* attributes_of(Call& call, MPI_Comm handle) {
  auto* const comm = call.comm(handle);
  return comm != nullptr ? &comm->attributes : nullptr;
}
Attributes<MPI_Win>* attributes_of(Call& call, MPI_Win handle) {
  auto* const window = call.window(handle);
  return window != nullptr ? &window->attributes : nullptr;
}
Attributes<MPI_Datatype>* attributes_of(Call& call, MPI_Datatype handle) {
  return call.any_type(handle) != nullptr ? call.process().type_attributes().find(handle) : nullptr;
}

// Of a valid object, to set one: a type gets a place for its first.
Attributes<MPI_Comm>* attributes_to_set(Call& call, MPI_Comm handle) { return attributes_of(call, handle); }
Attributes<MPI_Win>* attributes_to_set(Call& call, MPI_Win handle) { return attributes_of(call, handle); }
Attributes<MPI_Datatype>* attributes_to_set(Call& call, MPI_Datatype handle) {
  return &call.process().type_attributes().of(handle);
}

// The attributes that the standard defines; nothing for a key that is none of them.
std::optional<const void*> predefined(Call& call, MPI_Comm /*comm*/, int keyval) {
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
    default: return std::nullopt;
  }
}
std::optional<const void*> predefined(Call& call, MPI_Win handle, int keyval) {
  mpi_shim::rma::Window& window = *call.window(handle);
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
int create(const char* function, int (*copy)(Handle, int, void*, void*, void*, int*),
           int (*destroy)(Handle, int, void*, void*), int* keyval, void* extra_state) {
  Call call{function};
  return call.answer(keyval, "keyval", [&] { return keys_of(call, Handle{}).create(copy, destroy, extra_state); });
}

template <class Handle>
int free_key(const char* function, int* keyval) {
  Call call{function};
  call.pointer(keyval, "keyval");
  if (call.failed()) return call.error();
  if (!keys_of(call, Handle{}).free(*keyval)) {
    return call.fail(MPI_ERR_KEYVAL, "argument keyval is not a key of the program's own");
  }
  *keyval = MPI_KEYVAL_INVALID;
  return MPI_SUCCESS;
}

template <class Handle>
int set(const char* function, Handle object, int keyval, void* value) {
  Call call{function};
  (void)attributes_of(call, object);  // checks it
  const auto key = keys_of(call, object).find(keyval);
  if (key == nullptr) call.fail(MPI_ERR_KEYVAL, "argument keyval is not a key that can be set");
  if (call.failed()) return call.error();
  return call.finish(attributes_to_set(call, object)->set(object, key, value));
}

template <class Handle>
int get(const char* function, Handle object, int keyval, void* result, int* flag) {
  Call call{function};
  auto* const attributes = attributes_of(call, object);
  call.pointer(result, "attribute_val");
  call.pointer(flag, "flag");
  if (call.failed()) return call.error();
  *flag = 1;
  if (const auto value = predefined(call, object, keyval)) {
    *static_cast<const void**>(result) = *value;
    return MPI_SUCCESS;
  }
  if (!keys_of(call, object).was_created(keyval)) return call.fail(MPI_ERR_KEYVAL, "argument keyval is not a key");
  void* value = nullptr;
  *flag = attributes != nullptr && attributes->get(keyval, value);
  if (*flag != 0) *static_cast<void**>(result) = value;
  return MPI_SUCCESS;
}

template <class Handle>
int remove(const char* function, Handle object, int keyval) {
  Call call{function};
  auto* const attributes = attributes_of(call, object);
  if (!call.failed() && !keys_of(call, object).was_created(keyval)) {
    call.fail(MPI_ERR_KEYVAL, "argument keyval is not a key that can be deleted");
  }
  if (call.failed()) return call.error();
  return attributes == nullptr ? MPI_SUCCESS : call.finish(attributes->remove(object, keyval));
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
