// SPDX-License-Identifier: Apache-2.0
#include "opal/am/large_sends.hpp"

#include <array>
#include <cstring>
#include <utility>

#include "opal/am/endpoint.hpp"
#include "opal/btl/shared/registrations/claims.hpp"

namespace opal::am {

std::uint32_t LargeSends::take_slot() {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  return slot;
}

Completion& LargeSends::end(std::uint32_t slot) noexcept {
  Outgoing& message = slots_[slot];
  message.route = nullptr;
  ++message.generation;
  message.memory.reset();
  message.offer = {};
  free_.push_back(slot);
  return *message.completion;
}

Post LargeSends::send(Endpoint& to, btl::Endpoint& route, Tag tag, ByteSpan header, ByteSpan payload,
                      Completion& completion) noexcept {
  auto memory = to.expose(const_cast<std::byte*>(payload.data()), payload.size(), Rights::remote_read);
  if (!memory) return memory.error().code == Errc::busy ? Post::again : btl::refuse(completion, memory.error());
  const ByteSpan handle = memory->handle();
  if (sizeof(wire::LargeOffer) + handle.size() + header.size() > route.module().attributes().max_send) {
    return btl::refuse(completion,
                       {Errc::invalid_argument, 0, "send: the header does not fit into one message", header.size()});
  }

  const std::uint32_t slot = take_slot();
  Outgoing& message = slots_[slot];
  message.to = &to;
  message.completion = &completion;
  message.memory = std::move(*memory);
  const auto give_back = [&](const Error& why) {
    (void)end(slot);
    return btl::refuse(completion, why);
  };
  // The name: generation and slot.  The receiver returns it in its LargeEnd.
  const wire::LargeOffer offer{(std::uint64_t{message.generation} << 32) | slot,
                               reinterpret_cast<std::uint64_t>(payload.data()),
                               payload.size(),
                               static_cast<std::uint32_t>(header.size()),
                               tag,
                               static_cast<std::uint16_t>(handle.size())};
  std::array<std::byte, sizeof offer + MemoryHandle::kMaxSize> front;
  std::memcpy(front.data(), &offer, sizeof offer);
  std::memcpy(front.data() + sizeof offer, handle.data(), handle.size());
  const ByteSpan head{front.data(), sizeof offer + handle.size()};

  const auto known = routes_.find(&route);
  if (known != routes_.end() && (known->second.in_flight == wire::kMostOffers || !known->second.waiting.empty())) {
    Route& state = known->second;
    const std::size_t bytes = sizeof(Outgoing) + head.size() + header.size();
    if (state.waiting_bytes + bytes > pending_limit_) {
      return give_back({Errc::limit_reached, 0, "send: am_pending_limit bytes wait already", bytes});
    }
    message.offer.reserve(head.size() + header.size());
    message.offer.assign(head.begin(), head.end());
    message.offer.insert(message.offer.end(), header.begin(), header.end());
    message.route = &route;
    state.waiting.push_back(slot);
    state.waiting_bytes += bytes;
    completion.error = {};
    return Post::queued;
  }
  // The post may find that the peer has failed and call route_gone().  message.route is still null, so route_gone()
  // does not complete this message too: this post reports the failure.  send_or_queue() never returns again.
  if (to.send_or_queue(wire::kLargeOffer, head, header) != Post::done) return give_back(to.error());
  if (route.dead()) return give_back(route.error());
  message.route = &route;
  ++routes_[&route].in_flight;
  completion.error = {};
  return Post::queued;
}

void LargeSends::send_waiting(const btl::Endpoint& route) noexcept {
  // Looked up again in each round: a post or a completion may erase the entry.
  for (auto state = routes_.find(&route); state != routes_.end(); state = routes_.find(&route)) {
    if (state->second.waiting.empty() || state->second.in_flight >= wire::kMostOffers) return;
    const std::uint32_t slot = state->second.waiting.front();
    Outgoing& message = slots_[slot];
    state->second.waiting.pop_front();
    state->second.waiting_bytes -= sizeof(Outgoing) + message.offer.size();
    ++state->second.in_flight;
    Endpoint& to = *message.to;
    const std::uint32_t generation = message.generation;
    const std::vector<std::byte> offer = std::exchange(message.offer, {});
    if (to.send_or_queue(wire::kLargeOffer, offer, {}) == Post::done) continue;
    if (slots_[slot].generation != generation)
      continue;  // the post found that the peer has failed; route_gone() has ended it
    if (const auto now = routes_.find(&route); now != routes_.end()) --now->second.in_flight;
    const Error why = to.error();
    end(slot).finish(why);
  }
}

void LargeSends::on_end(btl::Delivery& delivery) noexcept {
  wire::LargeEnd ended{};
  if (!read_object(delivery.data, ended)) return;
  const std::uint64_t slot = ended.name & 0xffffffffU;
  if (slot >= slots_.size()) return;
  Outgoing& message = slots_[slot];
  // A waiting offer has not been sent, so a LargeEnd that names it is forged.
  if (message.route != &delivery.from || message.generation != ended.name >> 32 || !message.offer.empty()) return;
  Completion& completion = end(static_cast<std::uint32_t>(slot));
  --routes_[&delivery.from].in_flight;
  send_waiting(delivery.from);
  if (const auto now = routes_.find(&delivery.from);
      now != routes_.end() && now->second.in_flight == 0 && now->second.waiting.empty()) {
    routes_.erase(now);
  }
  const Errc code = wire::code_of(ended.code);
  completion.finish(code == Errc{} ? Error{} : Error{code, 0, "send: the receiver refused a large message"});
}

void LargeSends::route_gone(const btl::Endpoint& route, const Error& why) noexcept {
  if (routes_.erase(&route) == 0) return;
  std::vector<Completion*> ended;
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].route == &route) ended.push_back(&end(slot));
  }
  // The completions run last: they may post, which changes slots_ and routes_.
  for (Completion* completion : ended) completion->finish(why);
}

}  // namespace opal::am
