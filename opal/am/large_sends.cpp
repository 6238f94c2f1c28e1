// SPDX-License-Identifier: Apache-2.0
#include "opal/am/large_sends.hpp"

#include <array>
#include <cstring>
#include <utility>

#include "opal/am/endpoint.hpp"
#include "opal/btl/shared/registrations/claims.hpp"

namespace opal::am {

Post LargeSends::send(Endpoint& to, btl::Endpoint& route, Tag tag, ByteSpan header, ByteSpan payload,
                      Completion& completion) noexcept {
  auto memory = to.expose(const_cast<std::byte*>(payload.data()), payload.size(), Rights::remote_read);
  if (!memory) return memory.error().code == Errc::busy ? Post::again : btl::refuse(completion, memory.error());
  const ByteSpan handle = memory->handle();
  if (sizeof(wire::LargeOffer) + handle.size() + header.size() > route.module().attributes().max_send) {
    return btl::refuse(completion,
                       {Errc::invalid_argument, 0, "send: the header does not fit into one message", header.size()});
  }

  // Owned by this call during the post, which may find that the peer has failed and call route_gone(): this post then
  // reports the failure.
  Outgoing message{next_name_++, &to, &completion, std::move(*memory), {}};
  const wire::LargeOffer offer{message.name,
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
  if (known != routes_.end() &&
      (known->second.in_flight.size() == wire::kMostOffers || !known->second.waiting.empty())) {
    Route& state = known->second;
    const std::size_t bytes = sizeof(Outgoing) + head.size() + header.size();
    if (state.waiting_bytes + bytes > pending_limit_) {
      return btl::refuse(completion, {Errc::limit_reached, 0, "send: am_pending_limit bytes wait already", bytes});
    }
    message.offer.reserve(head.size() + header.size());
    message.offer.assign(head.begin(), head.end());
    message.offer.insert(message.offer.end(), header.begin(), header.end());
    state.waiting.push_back(std::move(message));
    state.waiting_bytes += bytes;
    completion.error = {};
    return Post::queued;
  }
  // send_or_queue() never returns again.
  if (to.send_or_queue(wire::kLargeOffer, head, header) != Post::done) return btl::refuse(completion, to.error());
  if (route.dead()) return btl::refuse(completion, route.error());
  routes_[&route].in_flight.emplace(message.name, std::move(message));
  completion.error = {};
  return Post::queued;
}

void LargeSends::send_waiting(const btl::Endpoint& route) noexcept {
  // Looked up again in each round: a post or a completion may erase the entry.
  for (auto state = routes_.find(&route); state != routes_.end(); state = routes_.find(&route)) {
    auto& [in_flight, waiting, waiting_bytes] = state->second;
    if (waiting.empty() || in_flight.size() >= wire::kMostOffers) return;
    Outgoing message = std::move(waiting.front());
    waiting.pop_front();
    waiting_bytes -= sizeof(Outgoing) + message.offer.size();
    const Post post = message.to->send_or_queue(wire::kLargeOffer, std::exchange(message.offer, {}), {});
    if (post == Post::done && !route.dead()) {
      routes_[&route].in_flight.emplace(message.name, std::move(message));
      continue;
    }
    message.memory.reset();
    message.completion->finish(route.dead() ? route.error() : message.to->error());
  }
}

void LargeSends::on_end(btl::Delivery& delivery) noexcept {
  wire::LargeEnd ended{};
  if (!read_object(delivery.data, ended)) return;
  const auto state = routes_.find(&delivery.from);
  if (state == routes_.end()) return;
  auto message = state->second.in_flight.extract(ended.name);
  if (message.empty()) return;  // late or forged; the offer of a waiting message has not been sent
  Completion& completion = *message.mapped().completion;
  message = {};  // ends the exposure
  send_waiting(delivery.from);
  if (const auto now = routes_.find(&delivery.from);
      now != routes_.end() && now->second.in_flight.empty() && now->second.waiting.empty()) {
    routes_.erase(now);
  }
  const Errc code = wire::code_of(ended.code);
  completion.finish(code == Errc{} ? Error{} : Error{code, 0, "send: the receiver refused a large message"});
}

void LargeSends::route_gone(const btl::Endpoint& route, const Error& why) noexcept {
  auto gone = routes_.extract(&route);
  if (gone.empty()) return;
  std::vector<Completion*> ended;
  for (const auto& [name, message] : gone.mapped().in_flight) ended.push_back(message.completion);
  for (const Outgoing& message : gone.mapped().waiting) ended.push_back(message.completion);
  gone = {};  // ends the exposures
  for (Completion* completion : ended) completion->finish(why);
}

}  // namespace opal::am
