// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "opal/btl/sm/connections/connection_manager.hpp"

namespace opal::btl::sm {

void ConnectionManager::before_fork() noexcept { mutex_.lock(); }

void ConnectionManager::after_fork_in_parent() noexcept { mutex_.unlock(); }

/// Closes what hangs up when its last descriptor is closed; the rest is memory, which the child may keep.
void ConnectionManager::after_fork_in_child() noexcept {
  inherited_ = true;
  for (auto& [id, connection] : connections_) connection.socket.reset();
  listener_.reset();
  epoll_.reset();  // or the child could change what the parent listens to
  // The child has neither the thread nor a waiting one, so there is nothing to join or to wake.
  std::construct_at(&thread_);
  std::construct_at(&changed_);
  mutex_.unlock();
}

}  // namespace opal::btl::sm
