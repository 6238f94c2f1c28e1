// SPDX-License-Identifier: Apache-2.0
// A Context in a forked child (docs/design/forks.md).
#include <utility>

#include "opal/am/state.hpp"

namespace opal::am {

/// Another thread may have held any lock or been inside malloc() at the fork: the code of OPAL allocates and locks
/// nothing here, it closes descriptors and replaces pointers.  libibverbs frees memory when verbs closes its device.
void Context::State::after_fork_in_child() noexcept {
  if (inherited) return;  // a child of a child
  inherited = true;
  lock.leave_to_parent();
  for_each_endpoint([this](Endpoint& endpoint) { endpoint.leave_to_parent(*nowhere); });
  for (const auto& module : transports.modules) module->leave_to_parent();
  if (bootstrap != nullptr) bootstrap->close_in_child();
}

/// Called by restart() if the fork was between checkpoint() and resume().  restart() then replaces the routes, the
/// transports and the descriptors, as in a process restored from an image.
void Context::State::take_over() noexcept {
  inherited = false;
  progressing = false;
  waiter->take_over();
  for_each_endpoint([](Endpoint& endpoint) { endpoint.take_over(); });
  lock.take_over(options.threads);
}

void Context::State::keep() noexcept { next_kept = std::exchange(last_kept, this); }

}  // namespace opal::am
