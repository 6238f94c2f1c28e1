// SPDX-License-Identifier: Apache-2.0
// Progress and waiting of a Context.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "opal/am/spin.hpp"
#include "opal/am/state.hpp"
#include "opal/core/log.hpp"

namespace opal::am {

bool Context::State::send_pending(Endpoint& endpoint, std::size_t& sent) noexcept {
  btl::Endpoint& route = *endpoint.route_;
  // A post that finds the peer dead calls on_failed(), which frees the queue: test has_pending() after each post.
  while (endpoint.has_pending() && endpoint.pending_->may_send()) {
    Endpoint::Pending::Message message = std::move(endpoint.pending_->messages.front());
    const Post post = route.module().send_inline(route, message.tag, message.bytes, {});
    if (!endpoint.has_pending()) break;
    Endpoint::Pending& queue = *endpoint.pending_;
    if (post == Post::again) {
      queue.messages.front() = std::move(message);
      return false;
    }
    queue.bytes -= message.bytes.size();
    queue.messages.pop_front();
    if (queue.held) --queue.ahead;
    ++sent;
  }
  return !endpoint.has_pending() || !endpoint.pending_->held;
}

std::size_t Context::State::send_pending() noexcept {
  std::size_t sent = 0;
  for (std::size_t i = 0; i < pending.size();) {
    Endpoint& endpoint = *pending[i];
    if (!send_pending(endpoint, sent)) {
      ++i;
      continue;
    }
    endpoint.drop_pending();
    std::erase(pending, &endpoint);
  }
  return sent;
}

std::size_t Context::State::retry_waiting() noexcept {
  const std::size_t count = send_pending() + post_operations() + receives.progress();
  retry = !pending.empty() || !queueing.empty() || !flushes.empty() || receives.waits();
  return count;
}

std::size_t Context::State::connect_pending() noexcept {
  return bootstrap->progress(address, [this](ByteSpan peer_address) {
    if (const auto connector = decode(peer_address)) move_to_former_if_dead(connector->id);
    const std::size_t known = endpoints.size();
    auto peer = context->connect(peer_address);
    if (!peer) {
      log::warn("am", "bootstrap: cannot connect to a process that connected here: {}", to_string(peer.error()));
      return false;
    }
    const bool fresh = endpoints.size() != known;  // otherwise on_accepted() has reported the peer already
    if (fresh && options.observer != nullptr) options.observer->on_peer_connected(**peer);
    return true;
  });
}

namespace {

/// At level `multiple` one thread at a time makes progress.  Another thread returns at once: its polls would be
/// redundant and would block senders on the lock.
class Turn {
 public:
  Turn(std::atomic<bool>& taken, ThreadLevel threads) noexcept
      : taken_(threads == ThreadLevel::multiple ? &taken : nullptr) {
    // Load first: a read-modify-write that fails would take the cache line from the thread in progress().
    mine_ = taken_ == nullptr ||
            (!taken_->load(std::memory_order_relaxed) && !taken_->exchange(true, std::memory_order_acquire));
  }
  ~Turn() {
    if (taken_ != nullptr && mine_) taken_->store(false, std::memory_order_release);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  [[nodiscard]] bool mine() const noexcept { return mine_; }

 private:
  std::atomic<bool>* const taken_;
  bool mine_;
};

}  // namespace

namespace {
constexpr std::uint32_t kCallsPerFullRound = 8;  // of so many calls of progress_from(), one polls all transports
// Least budget of a round over all transports: the awaited peer's messages could use up a budget of 1 in every round,
// and other peers would starve.
constexpr std::size_t kLeastEverywhere = 8;
}  // namespace

std::size_t Context::progress(std::size_t budget) noexcept {
  const Turn turn{state_->progressing, state_->options.threads};
  if (!turn.mine()) {
    cpu_relax();
    return 0;
  }
  state_->lock.give_way();
  const Lock::Guard guard{state_->lock};
  return state_->advance(budget);
}

std::size_t Context::progress_from(Endpoint& from, std::size_t budget) noexcept {
  State& state = *state_;
  if (!state.lock.real() && ++state.progress_from_calls % kCallsPerFullRound != 0) [[likely]] {
    const bool outer = std::exchange(state.advancing, true);
    const std::size_t count = from.route_->module().progress_from(*from.route_, budget);
    state.advancing = outer;
    if (count != 0) return count;
  }
  return progress(std::max(budget, kLeastEverywhere));
}

/// Does not test `progressing`: the caller holds the lock, so a thread inside progress() waits for the lock.
std::size_t Context::progress_locked(std::size_t budget) noexcept { return state_->advance(budget); }

namespace {
constexpr std::uint32_t kBusyRoundsForAll = 8;
}

std::size_t Context::State::advance(std::size_t budget) noexcept {
  if (inherited) [[unlikely]]
    return 0;
  const bool outer = std::exchange(advancing, true);
  std::size_t count = 0;
  bool all = false;
  for (const auto& module : transports.modules) {
    count += module->progress(budget);
    if (count == 0 || all) continue;
    // The events may be the awaited ones: skip the other modules, but poll all in every eighth such round.
    if (++busy_rounds % kBusyRoundsForAll != 0) break;
    all = true;
  }
  if (no_transport != nullptr) [[unlikely]]
    count += no_transport->progress(budget);
  if (retry) [[unlikely]]
    count += retry_waiting();
  if (bootstrap != nullptr) [[unlikely]]
    count += connect_pending();
  if (staged != nullptr) [[unlikely]]
    count += staged->progress();
  advancing = outer;
  if (tidy && !outer) [[unlikely]] {
    count += disconnect_leaving();
    release_dead_routes();
    count += connect_waiting();
    tidy = !dead_routes.empty() || !leaving.empty() || !connecting.empty();
  }
  if (options.threads == ThreadLevel::multiple && waiter->has_sleepers()) {
    // After events the modules are no longer armed: wake all sleepers.  Without events: arm again, and wake all if
    // events are already there.
    if (count != 0) {
      armed = false;
      waiter->wake_others();
    } else if (!armed && !context->arm()) {
      waiter->wake_others();
    }
  }
  return count;
}

void Context::begin_batch() noexcept {
  const Lock::Guard guard{state_->lock};
  ++state_->batches;
  if (state_->inherited) return;
  for (const auto& module : state_->transports.modules) module->begin_batch();
}

void Context::end_batch() noexcept {
  const Lock::Guard guard{state_->lock};
  if (state_->batches == 0) return;
  --state_->batches;
  if (state_->inherited) return;
  for (const auto& module : state_->transports.modules) module->end_batch();
}

int Context::fd() const noexcept { return state_->waiter->fd(); }

bool Context::arm() noexcept {
  const Lock::Guard guard{state_->lock};
  if (state_->inherited) return true;
  bool idle = state_->leaving.empty() && state_->connecting.empty();
  for (const auto& module : state_->transports.modules) idle = module->arm() && idle;
  if (state_->no_transport != nullptr) idle = state_->no_transport->arm() && idle;
  if (state_->staged != nullptr) idle = state_->staged->idle() && idle;  // no wake-up from GPU events
  return state_->armed = idle;
}

bool Context::holds(Predicate predicate, void* object) noexcept {
  state_->lock.give_way();
  const Lock::Guard guard{state_->lock};
  return predicate(object);
}

std::size_t Context::wait_while(Predicate predicate, void* object, std::chrono::milliseconds timeout) noexcept {
  if (const std::size_t count = progress()) return count;
  if (inherited()) return 0;
  const Deadline deadline = Deadline::after(timeout);
  if (const std::size_t count = spin(state_->config, state_->yield_policy, deadline, [&] { return progress(); }))
    return count;
  // Register as a sleeper, then test: an event that another thread's progress() receives from here on ends the sleep.
  Waiter::Sleeper sleeper{*state_->waiter};
  while (!deadline.expired()) {
    if (predicate != nullptr && !holds(predicate, object)) return 0;
    if (arm()) {
      // Not every transport makes its descriptor readable when it has room again: retry every millisecond.
      sleeper.sleep(waits_for_room() ? Deadline::after(std::chrono::milliseconds{1}) : deadline);
    }
    if (const std::size_t count = progress()) return count;
    // Another thread's progress() may have received the awaited event: the caller tests its condition.
    if (state_->options.threads == ThreadLevel::multiple) return 0;
  }
  return 0;
}

void Context::sleep_while(std::span<Context* const> mine, std::span<Context* const> others, Predicate missing,
                          void* object, std::chrono::milliseconds timeout) noexcept {
  mine = mine.first(std::min(mine.size(), kMostInSleep));
  others = others.first(std::min(others.size(), kMostInSleep));
  std::array<std::optional<Waiter::Sleeper>, kMostInSleep> announced;
  std::array<int, 2 * kMostInSleep> watched;
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

void Context::wake_sleepers() noexcept { state_->waiter->wake_others(); }

/// During a checkpoint: true until quiet(), since the modules' markers may wait for room, too.
bool Context::waits_for_room() noexcept {
  const Lock::Guard guard{state_->lock};
  if (state_->quiesce.active && !state_->quiesce.quiet) return true;
  if (!state_->queueing.empty() || state_->receives.waits()) return true;
  return std::ranges::any_of(state_->pending, [](const Endpoint* endpoint) { return endpoint->pending_->may_send(); });
}

}  // namespace opal::am
