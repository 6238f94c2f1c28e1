// SPDX-License-Identifier: Apache-2.0
#include "tests/portals4/library.hpp"

#include <pthread.h>

#include <atomic>

#include "tests/portals4/progress.hpp"

namespace opal::test::portals4 {
namespace {

std::atomic<Library*> current_library;

void hold_all() {
  hold_progress();
  hold_descriptors();
}
void release_all() {
  release_descriptors();
  release_progress();
}

}  // namespace

Library& Library::current() {
  static const bool is_first = [] {
    current_library = new Library{nullptr};
    ::pthread_atfork(hold_all, release_all, replace_in_child);
    return true;
  }();
  static_cast<void>(is_first);
  return *current_library;
}

// In the child only the calling thread goes on, and a mutex may be locked for ever: nothing of the old state is used.
void Library::replace_in_child() {
  close_descriptors_in_child();
  release_all();
  current_library = new Library{current_library};
}

Call::Call() {
  Library& library = Library::current();
  {
    const std::lock_guard guard{library.mutex};
    if (library.initializations == 0) return;
    interface_ = library.interface;
  }
  result_ = interface_ == nullptr ? PTL_ARG_INVALID : PTL_OK;
  if (interface_ != nullptr) lock_ = std::unique_lock{interface_->mutex};
}

Call::Call(ptl_handle_ni_t handle) : Call{} {
  if (result_ == PTL_OK && handle != kInterfaceHandle) result_ = PTL_ARG_INVALID;
}

}  // namespace opal::test::portals4
