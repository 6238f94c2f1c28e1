// SPDX-License-Identifier: Apache-2.0
// Attributes of windows and their keys.
#include "mpi_shim/abi/function.hpp"
#include "mpi_shim/api/call.hpp"
#include "mpi_shim/rma/window.hpp"
#include "mpi_shim/rma/windows.hpp"

namespace {

using mpi_shim::api::Call;
using mpi_shim::rma::Window;

/// The attributes that the standard defines; null for a key that is none of them.
const void* predefined(Window& window, int keyval) {
  switch (keyval) {
    case MPI_WIN_SIZE: return &window.size_attribute;
    case MPI_WIN_DISP_UNIT: return &window.unit_attribute;
    case MPI_WIN_CREATE_FLAVOR: return &window.flavor_attribute;
    case MPI_WIN_MODEL: return &window.model_attribute;
    default: return nullptr;
  }
}

}  // namespace

OPAL_MPI_FUNCTION(int, Win_create_keyval,
                  (MPI_Win_copy_attr_function * win_copy_attr_fn, MPI_Win_delete_attr_function* win_delete_attr_fn,
                   int* win_keyval, void* extra_state)) {
  Call call{"MPI_Win_create_keyval"};
  if (call.failed()) return call.error();
  call.pointer(win_keyval, "win_keyval");
  if (call.failed()) return call.error();
  *win_keyval = call.process().window_keys().create(win_copy_attr_fn, win_delete_attr_fn, extra_state);
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Win_free_keyval, (int* win_keyval)) {
  Call call{"MPI_Win_free_keyval"};
  if (call.failed()) return call.error();
  call.pointer(win_keyval, "win_keyval");
  if (call.failed()) return call.error();
  if (!call.process().window_keys().free(*win_keyval)) {
    return call.fail(MPI_ERR_KEYVAL, "argument win_keyval is not a key of the program's own");
  }
  *win_keyval = MPI_KEYVAL_INVALID;
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Win_set_attr, (MPI_Win win, int win_keyval, void* attribute_val)) {
  Call call{"MPI_Win_set_attr"};
  if (call.failed()) return call.error();
  Window* const window = call.window(win);
  const auto key = call.process().window_keys().find(win_keyval);
  if (key == nullptr) call.fail(MPI_ERR_KEYVAL, "argument win_keyval is not a key that can be set");
  if (call.failed()) return call.error();
  return call.finish(window->attributes.set(win, key, attribute_val));
}

OPAL_MPI_FUNCTION(int, Win_get_attr, (MPI_Win win, int win_keyval, void* attribute_val, int* flag)) {
  Call call{"MPI_Win_get_attr"};
  if (call.failed()) return call.error();
  Window* const window = call.window(win);
  call.pointer(attribute_val, "attribute_val");
  call.pointer(flag, "flag");
  if (call.failed()) return call.error();
  *flag = 1;
  if (win_keyval == MPI_WIN_BASE) {
    *static_cast<void**>(attribute_val) = reinterpret_cast<void*>(window->own().base);
  } else if (const void* value = predefined(*window, win_keyval)) {
    *static_cast<const void**>(attribute_val) = value;
  } else {
    if (!call.process().window_keys().was_created(win_keyval)) {
      return call.fail(MPI_ERR_KEYVAL, "argument win_keyval is not a key");
    }
    void* own = nullptr;
    *flag = window->attributes.get(win_keyval, own) ? 1 : 0;
    if (*flag != 0) *static_cast<void**>(attribute_val) = own;
  }
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Win_delete_attr, (MPI_Win win, int win_keyval)) {
  Call call{"MPI_Win_delete_attr"};
  if (call.failed()) return call.error();
  Window* const window = call.window(win);
  if (!call.failed() && !call.process().window_keys().was_created(win_keyval)) {
    call.fail(MPI_ERR_KEYVAL, "argument win_keyval is not a key that can be deleted");
  }
  if (call.failed()) return call.error();
  return call.finish(window->attributes.remove(win, win_keyval));
}
