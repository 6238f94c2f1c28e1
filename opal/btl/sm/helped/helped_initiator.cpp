// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/sm/helped/helped_initiator.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "opal/core/clock.hpp"
#include "opal/core/copy.hpp"
#include "opal/core/log.hpp"
#include "opal/core/system/guarded_copy.hpp"
#include "opal/mpool/shared_directory.hpp"

namespace opal::btl::sm {
namespace {

// Minimum of units that one side takes at a time by single copy.  A single transfer ends sooner with small shares; a
// stream of transfers is faster with large ones.
constexpr std::uint32_t kLeastShare = 2;
constexpr std::uint32_t kLeastShareInStream = 8;
constexpr std::uint32_t kMostWithoutPieces = 256;  // maximum of units while no piece comes from the target
// A transfer that stood still for so long, since the program did not call the library, has no time of its own.
constexpr std::uint64_t kLongestPauseNs = 20'000;
// Limit of the wait for the target at an abandoned transfer.  A running target needs less than a millisecond per piece.
constexpr std::chrono::seconds kEndTimeout{10};

std::uint32_t least_share(const HelpedTransfer& transfer) noexcept {
  return transfer.streamed ? kLeastShareInStream : kLeastShare;
}

}  // namespace

bool HelpedInitiator::start_large(RdmaOperation::Kind kind, Endpoint& peer, std::byte* here, const Target& target,
                                  Completion& completion) noexcept {
  HelpedState& helped = peer.helped;
  const std::uint32_t calls = progress_.progress_calls();
  // In a stream, throughput counts more than latency, and each transfer of work between the two sides costs time.
  const bool streamed = helped.last_post == calls || (helped.initiator != nullptr && helped.initiator->count != 0);
  helped.last_post = calls;
  // To wake the target, or to wait until it runs on a shared core, costs more than to copy alone.
  const bool away = cores_shared_ || peer.is_asleep() || !helped.asks_target();
  const bool attached = peer.memory().copy.find(MechanismKind::xpmem) != nullptr;
  TransferMode mode = modes_.choose(target, kind == RdmaOperation::Kind::get, away, attached);
  const bool measured = mode == TransferMode::measured;
  if (measured) mode = helped.times.choose(target.range.size);
  if (mode == TransferMode::alone) return false;
  InitiatorState* const state = state_of(peer);
  if (state == nullptr || state->count == InitiatorState::kMost) return false;
  RdmaOperation* const operation = operations_.begin(kind, peer, completion, this);
  if (operation == nullptr) return false;
  operation->local = here;
  completion.error = {};
  state->transfers[(state->first + state->count++) % InitiatorState::kMost] = {operation, target.range, mode, streamed,
                                                                               measured};
  if (state->count == 1) {
    // When a completion posts the next transfer, progress() still has the endpoint in active_.
    if (std::ranges::find(active_, &peer) == active_.end()) active_.push_back(&peer);
    start_next(peer);
  }
  return true;
}

CopyOutcome HelpedInitiator::copy_large_alone(Endpoint& peer, std::byte* here, const Target& target) noexcept {
  const std::uint64_t begin = now_ns();
  const CopyOutcome outcome = peer.memory().move(target, here, false);
  if (outcome.ok() && target.access == Target::Access::mechanism) {
    peer.helped.times.record(TransferMode::alone, target.range.size, now_ns() - begin);
  }
  return outcome;
}

/// The peer's state, made at the first use; null: the segment has no memory left.
InitiatorState* HelpedInitiator::state_of(Endpoint& peer) noexcept {
  auto& state = peer.helped.initiator;
  if (state == nullptr) {
    const auto memory = peer.link().out->allocate(kHelpedRingSize);
    if (!memory) return nullptr;
    populate({memory->address, kHelpedRingSize});
    state = std::make_unique<InitiatorState>(HelpedRing{memory->address},
                                             static_cast<std::uint32_t>(memory->offset / kCacheLine));
  }
  return state.get();
}

void HelpedInitiator::start_next(Endpoint& peer) noexcept {
  InitiatorState& state = *peer.helped.initiator;
  state.ring.begin(HelpedRing::units_of(state.running().remote.size));
  state.share = kMostShare;
  state.error = {};
  state.by_messages.error = {};
  state.by_messages.step = ByMessages::Step::unused;
  state.attended = true;
  state.begin_ns = state.advanced_ns = state.last_moved_ns = now_ns();
  send_request(peer);
}

void HelpedInitiator::send_request(Endpoint& peer) noexcept {
  InitiatorState& state = *peer.helped.initiator;
  const HelpedTransfer& running = state.running();
  const RemoteRange& range = running.remote;
  wire::HelpRequest request{};
  request.address = range.address;
  request.size = range.size;
  request.region = range.region;
  request.line = state.line;
  request.generation = state.ring.generation();
  request.least_share = least_share(running);
  request.put = running.is_put() ? 1 : 0;
  if (running.mode == TransferMode::cooperative) {
    request.initiator_address = reinterpret_cast<std::uintptr_t>(running.local());
    request.initiator_pool = mpool::shared_pool_of(running.local(), range.size);
  }
  state.requested = peer.module().send_inline(peer, wire::kHelpRequest, bytes_of(request), {}) == Post::done;
}

/// Takes the pieces that the target has published, and copies those in chunks to the destination.  Returns their
/// number.
std::size_t HelpedInitiator::take_pieces(Endpoint& peer) noexcept {
  InitiatorState& state = *peer.helped.initiator;
  const HelpedTransfer& transfer = state.running();
  std::size_t count = 0;
  for (; count < kPiecesPerProgress; ++count) {
    UnitRange piece;
    const std::byte* bytes = nullptr;
    const InitiatorSide::Poll polled = state.ring.poll(piece, bytes);
    if (polled == InitiatorSide::Poll::nothing) break;
    if (polled == InitiatorSide::Poll::garbage) {
      peers_.fail(peer,
                  {Errc::protocol, 0, "sm helped transfer: the peer published a piece out of order", piece.first});
      break;
    }
    if (bytes != nullptr) {
      if (transfer.is_put()) {
        peers_.fail(peer, {Errc::protocol, 0, "sm helped transfer: the peer published a chunk for a put", piece.first});
        break;
      }
      copy_host_memory(transfer.local() + offset_of(piece.first), bytes, bytes_of_units(piece, transfer.remote.size));
    }
    state.ring.pop(piece);
  }
  return count;
}

/// True when the initiator goes on without the target.  It always does in a cooperative transfer, of which the target
/// may have given up its part: if no mechanism is left, messages repeat the transfer.
bool HelpedInitiator::may_copy(Endpoint& peer) const noexcept {
  const HelpedTransfer& running = peer.helped.initiator->running();
  return running.mode == TransferMode::cooperative || peer.memory().copy.reaches(running.remote);
}

/// Whether a pipelined transfer leaves its units to the target for now.  When no piece has come in time, the target
/// does not count as one that helps.
bool HelpedInitiator::leaves_units_to_target(InitiatorState& state) const noexcept {
  if (state.running().mode == TransferMode::cooperative) return false;
  if (now_ns() - state.last_moved_ns >= target_wait_ns_) state.target_helps = false;
  return state.target_helps;
}

/// Takes units from the back and copies them.  Returns the number of events.
std::size_t HelpedInitiator::copy_share(Endpoint& peer) noexcept {
  InitiatorState& state = *peer.helped.initiator;
  const HelpedTransfer& transfer = state.running();
  const UnitRange units = state.ring.take_from_back(least_share(transfer), state.share);
  if (units.count == 0) return 0;
  state.share = std::min(2 * state.share, kMostWithoutPieces);
  const std::uint64_t offset = offset_of(units.first);
  const RemoteRange part{transfer.remote.address + offset, bytes_of_units(units, transfer.remote.size),
                         transfer.remote.region, transfer.remote.pool};
  // The transfer waited in a queue or for its target.  Meanwhile the registration may have ended, the pool may have
  // been unmapped for another one, or the peer may have ended and another process may have its PID.
  const Result<Target> target = peer.memory().recheck(part, transfer.wanted());
  const CopyOutcome outcome = target ? peer.memory().move(*target, transfer.local() + offset, transfer.is_put())
                                     : CopyOutcome{0, target.error()};
  if (outcome.ok()) return 1;
  if (outcome.error.code == Errc::not_supported) {  // no mechanism is left
    state.by_messages.step = ByMessages::Step::due;
  } else {
    state.error = outcome.error;
  }
  state.ring.close();
  return 1;
}

/// Ends the running transfer.  False: not yet, since it is repeated by messages.
bool HelpedInitiator::finish(Endpoint& peer) noexcept {
  InitiatorState& state = *peer.helped.initiator;
  const HelpedTransfer transfer = state.running();
  ByMessages& by_messages = state.by_messages;
  if (by_messages.step == ByMessages::Step::due) {
    by_messages.step = ByMessages::Step::in_flight;
    const Post post = emulation_.transfer(transfer.operation->kind, peer, transfer.local(), transfer.remote.address,
                                          *MemoryHandle::from_bytes(bytes_of(transfer.remote.region)),
                                          transfer.remote.size, by_messages);
    if (post == Post::again) by_messages.step = ByMessages::Step::due;
    if (post == Post::done || post == Post::failed) by_messages.step = ByMessages::Step::ended;
  }
  const bool repeated = by_messages.step == ByMessages::Step::ended;
  if (by_messages.step != ByMessages::Step::unused && !repeated) return false;
  const Claims claims = state.ring.claims();
  // It has taken nothing.
  if (transfer.mode == TransferMode::cooperative && claims.front == 0) state.target_helps = false;
  Error error = repeated ? by_messages.error : state.error;
  if (!repeated && error.code == Errc{} && claims.refused) {
    error = {Errc::invalid_argument, 0, "memory handle: stale, its registration or its memory is gone",
             transfer.remote.address};
  }
  if (!repeated && error.code == Errc{}) record_time(peer);
  state.pop();
  if (state.count != 0) start_next(peer);
  operations_.finish(*transfer.operation, error);
  return true;
}

/// The running transfer has succeeded.
void HelpedInitiator::record_time(Endpoint& peer) noexcept {
  InitiatorState& state = *peer.helped.initiator;
  const HelpedTransfer& transfer = state.running();
  if (transfer.measured && state.attended)
    peer.helped.times.record(transfer.mode, transfer.remote.size, now_ns() - state.begin_ns);
}

/// Makes progress on the running transfer of one peer.  Returns the number of events.
std::size_t HelpedInitiator::advance(Endpoint& peer) noexcept {
  InitiatorState& state = *peer.helped.initiator;
  if (now_ns() - state.advanced_ns > kLongestPauseNs) state.attended = false;
  std::size_t count = take_pieces(peer);
  if (count != 0) {
    peer.wake();  // the target may sleep because all chunks were full
    state.last_moved_ns = now_ns();
    state.share = kMostShare;
    state.target_helps = true;
  } else if (may_copy(peer) && !state.ring.over() && !leaves_units_to_target(state)) {
    count += copy_share(peer);
  }
  if (!state.requested && state.ring.claims().left() != 0) send_request(peer);
  if (!peer.dead() && state.ring.over() && finish(peer)) ++count;
  state.advanced_ns = now_ns();
  return count;
}

std::size_t HelpedInitiator::progress() noexcept {
  std::size_t count = 0;
  for (std::size_t i = 0; i < active_.size();) {
    Endpoint& peer = *active_[i];
    if (!peer.dead()) count += advance(peer);  // abandon() ends the transfers of a failed peer
    if (peer.helped.initiator->count == 0) {
      active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  return count;
}

bool HelpedInitiator::has_work() const noexcept {
  return std::ranges::any_of(active_, [this](Endpoint* peer) {
    const InitiatorState& state = *peer->helped.initiator;
    if (state.by_messages.step == ByMessages::Step::in_flight) return false;
    if (state.ring.ready() || state.ring.over()) return true;
    return state.ring.claims().left() != 0 && (!state.requested || may_copy(*peer));
  });
}

/// The target writes to the destination of a cooperative get, and reads the source of a put, from the moment it takes a
/// piece until it publishes it.  After the completion the program may use that memory.
void HelpedInitiator::wait_for_target(Endpoint& peer) noexcept {
  InitiatorState& state = *peer.helped.initiator;
  if (state.running().mode != TransferMode::cooperative) return;
  const Deadline deadline = Deadline::after(kEndTimeout);
  while (!state.ring.is_quiet()) {
    if (peer.memory().hung_up->load(std::memory_order_acquire)) return;  // it copies no more
    if (deadline.expired()) {
      log::error("btl.sm",
                 "peer {} has not finished its part of a transfer within {} s (is it stopped?); it may still copy from "
                 "or to memory of that transfer",
                 to_string(peer.peer()), kEndTimeout.count());
      return;
    }
    cpu_relax();
    std::this_thread::yield();
  }
}

void HelpedInitiator::abandon(Endpoint& endpoint, const Error& why) noexcept {
  std::erase(active_, &endpoint);
  if (endpoint.helped.initiator == nullptr) return;
  InitiatorState& state = *endpoint.helped.initiator;
  if (state.count != 0) {
    state.ring.close();
    wait_for_target(endpoint);
  }
  while (state.count != 0) {
    RdmaOperation& operation = *state.running().operation;
    state.pop();
    operations_.finish(operation, why);
  }
}

}  // namespace opal::btl::sm
