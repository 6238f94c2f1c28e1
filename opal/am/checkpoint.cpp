// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a Context: messages drained by markers, one-sided operations by flush, caches emptied.
#include <algorithm>

#include "opal/am/state.hpp"

namespace opal::am {

void Context::State::on_marker(btl::Delivery& delivery) noexcept {
  std::uint64_t round = 0;
  auto* endpoint = static_cast<Endpoint*>(delivery.from.upper);
  if (endpoint == nullptr || !read_object(delivery.data, round)) return;
  std::uint64_t& heard = quiesce.heard[endpoint->peer()];
  heard = std::max(heard, round);
}

/// Puts the marker behind what waits on this endpoint, once.
void Context::State::hold(Endpoint& endpoint) {
  if (!endpoint.has_pending()) {
    endpoint.pending_ = std::make_unique<Endpoint::Pending>();
    pending.push_back(&endpoint);
  }
  Endpoint::Pending& queue = *endpoint.pending_;
  if (queue.marked) return;
  const ByteSpan round = bytes_of(quiesce.round);
  queue.messages.push_back({kMarkerTag, {round.begin(), round.end()}});
  queue.bytes += round.size();
  queue.marked = true;
}

void Context::quiesce(std::uint64_t round) {
  const Lock::Guard guard{state_->lock};
  state_->quiesce.active = true;
  state_->quiesce.round = round;
  for (const auto& [peer, endpoint] : state_->endpoints) {
    if (!endpoint->route_->dead()) state_->hold(*endpoint);
  }
}

bool Context::quiet() noexcept {
  const Lock::Guard guard{state_->lock};
  Quiesce& quiesce = state_->quiesce;
  if (!quiesce.active || quiesce.flush.queued) return false;
  for (const auto& [peer, endpoint] : state_->endpoints) {
    if (endpoint->route_->dead()) continue;
    state_->hold(*endpoint);  // it may have come, or come back, since
    const auto heard = quiesce.heard.find(peer);
    if (!endpoint->pending_->held || heard == quiesce.heard.end() || heard->second < quiesce.round) return false;
  }
  quiesce.flush.fn = [](Completion& self) noexcept { static_cast<Quiesce::Flush&>(self).queued = false; };
  const Post post = flush(quiesce.flush);
  quiesce.flush.queued = post == Post::queued;
  return post == Post::done;
}

Result<void> Context::checkpoint() noexcept {
  const Lock::Guard guard{state_->lock};
  if (!quiet()) return Error{Errc::busy, 0, "Context::checkpoint: not quiet"};
  for (const auto& registrations : state_->registration_caches) {
    registrations->cache().flush();
    const std::uint64_t left = registrations->cache().statistics().registered.count;
    if (left != 0) return Error{Errc::busy, 0, "Context::checkpoint: cached registrations are in use", left};
  }
  return {};
}

void Context::resume() noexcept {
  const Lock::Guard guard{state_->lock};
  state_->quiesce.active = false;
  for (Endpoint* endpoint : state_->pending) {
    Endpoint::Pending& queue = *endpoint->pending_;
    const auto marker =
        std::find_if(queue.messages.begin(), queue.messages.end(),
                     [](const Endpoint::Pending::Message& message) { return message.tag == kMarkerTag; });
    if (marker != queue.messages.end()) {  // given up before it went out
      queue.bytes -= marker->bytes.size();
      queue.messages.erase(marker);
    }
    queue.marked = queue.held = false;
  }
}

}  // namespace opal::am
