// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/sm/helped/helped_target.hpp"

#include "opal/core/system/guarded_copy.hpp"

namespace opal::btl::sm {

void HelpedTarget::on_request(Endpoint& peer, ByteSpan message) noexcept {
  wire::HelpRequest request{};
  const auto refuse = [&](const char* why) { peers_.fail(peer, {Errc::protocol, 0, why}); };
  if (message.size() != sizeof request || !read_object(message, request)) return refuse("sm help request: size");
  if (request.least_share == 0 || request.least_share > kMostShare || request.put > 1 ||
      (request.put == 1 && request.initiator_address == 0) || request.generation >= Claims::kGenerations ||
      request.size == 0 || request.size > offset_of(wire::kMostHelpUnits)) {
    return refuse("sm help request: a field");
  }
  auto& target = peer.helped.target;
  if (target == nullptr) {
    const MutableBytes memory = peer.link().in.part(request.line, kHelpedRingSize);
    if (memory.empty()) return refuse("sm help request: outside its segment");
    populate(memory);
    target = std::make_unique<TargetState>(HelpedRing{memory.data()}, request.line);
  }
  TargetState& state = *target;
  if (state.line != request.line) return refuse("sm help request: another ring");
  // A transfer that has ended since the last progress() still has its entry.
  if (std::ranges::find(active_, &peer) == active_.end()) active_.push_back(&peer);
  state.active = true;
  state.request = request;
  state.ring.begin(request.generation, HelpedRing::units_of(request.size));
  (void)copy_pieces(peer);
}

std::size_t HelpedTarget::progress() noexcept {
  std::size_t count = 0;
  for (std::size_t i = 0; i < active_.size();) {
    Endpoint& peer = *active_[i];
    const TargetState& state = *peer.helped.target;
    if (state.active && state.ring.can_go_on()) count += copy_pieces(peer) ? 1 : 0;
    if (state.active) {
      ++i;
    } else {
      active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return count;
}

void HelpedTarget::abandon(Endpoint& endpoint) noexcept {
  if (TargetState* const state = endpoint.helped.target.get(); state != nullptr) state->active = false;
  std::erase(active_, &endpoint);
}

/// True when this process's registration table allows the access now.  GPU memory is refused, since the processor
/// cannot copy it; a correct initiator sees that in the table and sends no request.
bool HelpedTarget::is_allowed(const TargetState& state) const noexcept {
  const RegistrationView table = registrations_.view();
  const wire::HelpRequest& request = state.request;
  const Rights wanted = state.is_put() ? Rights::remote_write : Rights::remote_read;
  return table.check(request.region, request.address, request.size, wanted) &&
         table.pool_of(request.region) != RegistrationView::kOfGpu;
}

/// Copies a piece between this process's memory at `bytes` and the peer's memory at `place`.  False: the copy failed,
/// for instance because the program has unmapped `bytes`.
bool HelpedTarget::copy_in_place(Endpoint& peer, std::byte* bytes, const RemoteRange& place) noexcept {
  RemoteMemory& memory = peer.memory();
  const bool put = peer.helped.target->is_put();
  if (std::byte* const there = memory.map(place)) {
    return put ? guarded_copy(bytes, there, place.size) : guarded_copy(there, bytes, place.size);
  }
  return memory.copy.copy(place, bytes, !put).ok();
}

/// Copies pieces while chunks are free, at most kPiecesPerProgress.  Returns true when a piece or a refusal was
/// published.
bool HelpedTarget::copy_pieces(Endpoint& peer) noexcept {
  TargetState& state = *peer.helped.target;
  if (peer.memory().hung_up->load(std::memory_order_acquire)) {  // another process may have its PID by now
    state.active = false;
    return false;
  }
  if (!is_allowed(state)) {
    state.ring.refuse();
    state.active = false;
    peer.wake();
    return true;
  }
  bool published = false;
  for (int i = 0; i < kPiecesPerProgress && copy_next(peer, published); ++i) {
  }
  if (published) peer.wake();
  return published;
}

/// Copies the next piece.  Sets `published` when the caller must wake the initiator.  False: no more pieces now.
bool HelpedTarget::copy_next(Endpoint& peer, bool& published) noexcept {
  TargetState& state = *peer.helped.target;
  const wire::HelpRequest& request = state.request;
  const RemoteRange whole{request.initiator_address, request.size, {}, request.initiator_pool};
  const bool in_place = whole.address != 0 && peer.memory().copy.reaches(whole);
  if (state.is_put() && !in_place) {  // the initiator copies all other units
    state.active = false;
    return false;
  }
  UnitRange piece;
  const TargetSide::Take taken = in_place ? state.ring.take(piece, request.least_share, kMostShare)
                                          : state.ring.take(piece, 1, state.ring.chunk_units());
  if (taken == TargetSide::Take::full) return false;
  if (taken != TargetSide::Take::piece) {
    state.active = false;
    if (taken == TargetSide::Take::garbage) {
      peers_.fail(peer, {Errc::protocol, 0, "sm helped transfer: invalid counters of the initiator"});
    }
    return false;
  }
  const std::uint64_t offset = offset_of(piece.first);
  const std::uint64_t size = bytes_of_units(piece, request.size);
  auto* const bytes = reinterpret_cast<std::byte*>(request.address) + offset;
  const bool copied = in_place ? copy_in_place(peer, bytes, {whole.address + offset, size, {}, whole.pool})
                               : guarded_copy(state.ring.chunk(), bytes, size);
  if (!copied) {
    state.ring.give_up(piece);
    if (!in_place) state.ring.refuse();  // the registration is live, its memory is gone
    state.active = false;
    published = true;  // the initiator may sleep, since no unit was left for it
    return false;
  }
  state.ring.publish(piece, in_place);
  published = true;
  return true;
}

}  // namespace opal::btl::sm
