// SPDX-License-Identifier: Apache-2.0
// The state of the library in this process: how often it is initialized, and its interface.
// Never destroyed, so that destructors of the program may run in any order.  A child of fork() gets a new state.
#pragma once

#include <memory>
#include <mutex>

#include "tests/portals4/interface.hpp"

namespace opal::test::portals4 {

class Library {
 public:
  static Library& current();

  std::mutex mutex;
  unsigned initializations = 0;
  std::shared_ptr<Interface> interface;  ///< null: none
  unsigned interface_uses = 0;           ///< PtlNIInit without their PtlNIFini

 private:
  explicit Library(Library* abandoned) : abandoned_{abandoned} {}
  static void replace_in_child();
  [[maybe_unused]] Library* abandoned_;  ///< the parent's: untouched, and reachable for the leak checker
};

/// An entry point's hold on the interface, with its mutex locked.  result() is PTL_OK, or what to return at once.
class Call {
 public:
  Call();                                 ///< for handles of objects: PTL_ARG_INVALID without an interface
  explicit Call(ptl_handle_ni_t handle);  ///< PTL_ARG_INVALID for another handle than the interface's

  int result() const { return result_; }
  Interface* operator->() const { return interface_.get(); }
  Interface& operator*() const { return *interface_; }
  std::unique_lock<std::mutex>& lock() { return lock_; }

 private:
  std::shared_ptr<Interface> interface_;
  std::unique_lock<std::mutex> lock_;
  int result_ = PTL_NO_INIT;
};

/// The object of a handle; null if there is none.
template <class Object>
std::shared_ptr<Object> find(const Interface::Table<Object>& table, ptl_handle_any_t handle) {
  const auto found = table.find(handle);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace opal::test::portals4
