// SPDX-License-Identifier: Apache-2.0
#include "opal/am/sleep.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <optional>

#include "opal/am/state.hpp"

namespace opal::am {

void Sleep::sleep(std::span<Context* const> mine, std::span<Context* const> others, bool (*missing)(void*) noexcept,
                  void* object, std::chrono::milliseconds timeout) noexcept {
  mine = mine.first(std::min(mine.size(), kMost));
  others = others.first(std::min(others.size(), kMost));
  std::array<std::optional<Waiter::Sleeper>, kMost> announced;
  std::array<int, 2 * kMost> watched;
  std::size_t count = 0;
  bool idle = true;
  bool for_room = false;
  for (std::size_t i = 0; i < mine.size(); ++i) announced[i].emplace(*mine[i]->state_->waiter);
  // arm() takes the lock: missing() sees what was handled before it, and later events wake this thread.
  for (Context* context : mine) {
    idle = context->arm() && idle;
    for_room = context->waits_for_room() || for_room;
    watched[count++] = context->fd();
  }
  for (Context* context : others) {
    if (context->state_->waiter->has_sleepers()) continue;  // its next event wakes that sleeper
    const Lock::TryGuard guard{context->lock()};
    if (!guard) continue;
    idle = context->arm() && idle;
    watched[count++] = context->fd();
  }
  constexpr std::chrono::milliseconds kLook{1};  // not every transport's descriptor becomes readable when it has room
  if (for_room && (timeout > kLook || timeout.count() < 0)) timeout = kLook;
  if (idle && missing(object)) Waiter::sleep({watched.data(), count}, Deadline::after(timeout));
}

}  // namespace opal::am
