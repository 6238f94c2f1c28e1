// SPDX-License-Identifier: Apache-2.0
// Progress of point-to-point messages: progress of the transports, then retries of the stalled operations.
#include <time.h>

#include <algorithm>

#include "mpi_shim/p2p/waits/vcis.hpp"
#include "opal/core/clock.hpp"

namespace mpi_shim::p2p {

namespace {

// Polls, together some hundreds of microseconds, before a thread with stalled operations may sleep.  A running receiver
// makes room within a few polls, faster than a wake-up.  Only shared memory reports room; otherwise a sleep costs 1 ms.
constexpr int kPollsForRoom = 1000;

// Polls of the sender alone, about 200 ns each.  After them a few hundred nanoseconds of latency do not matter.
constexpr int kPollsOfSender = 100;
constexpr int kPollsOnSharedCore = 2;  // the sender may be waiting for this core

// Messages of one poll.  More messages than the process waits for become unexpected ones, each with a copy.  While they
// stay in the transport, back-pressure slows their sender down.
constexpr std::size_t kBudget = 8;
constexpr std::size_t kBudgetOfAwaited = 16;  // the limit if the caller waits for several requests

}  // namespace

std::size_t Engine::progress() noexcept {
  std::size_t count = context_.progress(kBudget);
  if (!stalling_.load(std::memory_order_relaxed)) [[likely]]
    return count;
  if (Halt* const halt = halt_.load(std::memory_order_acquire)) halt->wait();
  if (count == 0) take_losses();
  count += resume_stalled();
  for (int poll = 0; count == 0 && poll < kPollsForRoom; ++poll) {
    opal::cpu_relax();
    count = context_.progress(kBudget) + resume_stalled();
  }
  return count;
}

void Engine::poll_for(const Request& request, std::size_t awaited) noexcept {
  am::Endpoint* const from = vcis_ == nullptr ? Receive::sender_of(request) : nullptr;
  if (from != nullptr) {
    const std::size_t budget = std::min(awaited, kBudgetOfAwaited);
    const int polls = core_is_shared_ ? kPollsOnSharedCore : kPollsOfSender;
    for (int poll = 0; poll < polls && !stalling_.load(std::memory_order_relaxed); ++poll) {
      (void)context_.progress_from(*from, budget);
      if (request.done()) return;
    }
  }
  wait_long(request);
}

[[gnu::noinline]] void Engine::wait_long(const Request& request) noexcept {
  wait_until([&] { return request.done(); });
}

void Engine::progress_or_yield() noexcept {
  if (vcis_ != nullptr) [[unlikely]]
    return vcis_->progress_or_yield(Vcis::Set{1} << vci_);
  if (progress() == 0) yield_core();
}

void Engine::yield_core() noexcept {
  if (!core_is_shared_) return;
  if (yield_policy_.begin(opal::YieldPolicy::kCost) != 0) {
    (void)yield_policy_.yield();
  } else {
    const timespec nap{0, 1};  // the shortest sleep; sched_yield() would wait for the slices of computing processes
    (void)::nanosleep(&nap, nullptr);
  }
}

std::size_t Engine::resume_stalled() noexcept {
  const am::Lock::Guard guard{lock_};
  ++pass_;
  std::vector<Stalled*> turn;
  turn.swap(stalled_);
  std::size_t kept = 0;
  for (Stalled* stalled : turn) {
    stalled->waits = false;
    if (stalled->resume(*stalled)) continue;
    stalled->waits = true;
    turn[kept++] = stalled;
  }
  const std::size_t resumed = turn.size() - kept;
  // Operations that are still stalled stay ahead of those that were added meanwhile.
  stalled_.insert(stalled_.begin(), turn.begin(), turn.begin() + static_cast<std::ptrdiff_t>(kept));
  update_stalling();
  return resumed;
}

void Engine::update_stalling() noexcept {
  const std::lock_guard guard{losses_mutex_};
  stalling_.store(!stalled_.empty() || !lost_.empty() || is_halted(), std::memory_order_relaxed);
}

std::size_t Engine::glance() noexcept {
  const am::Lock::TryGuard guard{lock_};
  if (!guard) return 0;
  const std::size_t count = context_.progress_locked(kBudget);
  if (!stalling()) [[likely]]
    return count;
  if (count == 0) take_losses();
  return count + resume_stalled();
}

void Engine::lost_elsewhere(Peer& peer) noexcept {
  {
    const std::lock_guard guard{losses_mutex_};
    lost_.push_back(&peer);
    stalling_.store(true, std::memory_order_relaxed);
  }
  context_.wake_sleepers();
}

/// stalling_ becomes false later, in update_stalling().
void Engine::halt(Halt* by) noexcept {
  {
    const std::lock_guard guard{losses_mutex_};
    halt_.store(by, std::memory_order_release);
    stalling_.store(true, std::memory_order_relaxed);
  }
  context_.wake_sleepers();
}

void Engine::take_losses() noexcept {
  std::vector<Peer*> lost;
  {
    const std::lock_guard guard{losses_mutex_};
    lost.swap(lost_);
  }
  if (lost.empty()) [[likely]]
    return;
  const am::Lock::Guard guard{lock_};
  for (Peer* peer : lost) {
    if (peer->endpoint == nullptr && !peer->failed)
      peer_failed(*peer, Error{Errc::peer_gone, 0, "the process is gone"});
  }
}

Engine::Waiting Engine::waiting() {
  Waiting found{{}, !stalled_.empty() || fetching_ != 0 || !receiving_.empty(), rendezvous_};
  for (Channel* channel : channels_) {
    if (channel == nullptr) continue;
    for (const Peer* peer : channel->peers) found.state += peer->sent + 3 * peer->received;
    channel->matcher.for_each_posted([&](match::PostedRecv& posted) {
      const int source = posted.wanted.source;
      const Peer* peer = source < 0 ? nullptr : channel->peers[static_cast<std::size_t>(source)];
      found.operations.push_back({false, peer, posted.wanted.tag, channel, reinterpret_cast<std::uintptr_t>(&posted)});
    });
  }
  sending_.for_each([&](const Send& send) {
    found.operations.push_back({true, send.peer_, send.tag_, send.channel_, send.id_});
  });
  return found;
}

void Engine::fail_receives(Channel& channel, const Peer& peer) noexcept {
  const auto found = std::find(channel.peers.begin(), channel.peers.end(), &peer);
  if (found == channel.peers.end()) return;
  const int rank = static_cast<int>(found - channel.peers.begin());
  channel.broken = channel.collective;
  std::vector<Receive*> lost;
  channel.matcher.for_each_posted([&](match::PostedRecv& posted) {
    // A receive from any source might have matched a message of the peer: it ends with an error, too.
    if (posted.wanted.source == rank || posted.wanted.source == MPI_ANY_SOURCE || channel.gives_up(posted.wanted.tag))
      lost.push_back(static_cast<Receive*>(&posted));
  });
  for (Receive* receive : lost) {
    if (channel.matcher.cancel(*receive)) receive->end(MPI_ERR_PROC_ABORTED);
  }
}

bool Engine::all_failed(const Channel& channel, int source) noexcept {
  if (source >= 0) return channel.peers[static_cast<std::size_t>(source)]->failed;
  bool lost = false;
  for (std::size_t rank = 0; rank < channel.peers.size(); ++rank) {
    const bool failed = channel.peers[rank]->failed;
    if (!failed && !(channel.has_self && static_cast<int>(rank) == channel.rank)) return false;
    lost |= failed;
  }
  return lost;
}

void Engine::peer_failed(Peer& peer, const Error& why) noexcept {
  peer.failed = true;
  failures_.fetch_add(1, std::memory_order_release);
  peer.eager_below = peer.eager_below_when_free = 0;
  sending_.for_each([&](Send& send) {
    if (send.peer_ == &peer && send.step_ == Send::Step::answer) send.end(MPI_ERR_PROC_ABORTED);
  });
  receiving_.for_each([&](Receive& receive) {
    if (receive.from_ == peer.endpoint) receive.end(MPI_ERR_PROC_ABORTED);
  });
  for (Channel* channel : channels_) {
    if (channel != nullptr) fail_receives(*channel, peer);
  }
  std::vector<Send*> given_up;
  sending_.for_each([&](Send& send) {
    if (send.step_ == Send::Step::answer && send.channel_->gives_up(send.tag_)) given_up.push_back(&send);
  });
  for (Send* send : given_up) (void)send->withdraw();
  connector_.on_peer_failed(peer.process, why);
  context_.wake_sleepers();
}

}  // namespace mpi_shim::p2p
