// SPDX-License-Identifier: Apache-2.0
#include "opal/am/messages/large_receives.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "opal/btl/module.hpp"
#include "opal/core/copy.hpp"
#include "opal/core/log.hpp"

namespace opal::am {

struct LargeReceives::Incoming : Completion {
  Incoming(LargeReceives& all, btl::Endpoint& from, const wire::ParsedOffer& parsed)
      : all(all),
        from(from),
        offer(parsed.offer),
        handle(parsed.handle),
        header(parsed.header.begin(), parsed.header.end()) {
    fn = [](Completion& self) noexcept {
      auto& message = static_cast<Incoming&>(self);
      message.all.mark_arrived(message, message.error);
    };
  }
  [[nodiscard]] std::uint64_t total() const noexcept { return header.size() + offer.size; }

  LargeReceives& all;
  btl::Endpoint& from;
  const wire::LargeOffer offer;
  const MemoryHandle handle;
  const std::vector<std::byte> header;
  State state = State::waiting;
  Error why{};  // why it cannot be received; code 0: it can
  std::byte* buffer = nullptr;
  Block own;            // memory of `buffer` if it is the library's
  BufferSource source;  // source of `buffer` if it is the program's
};

LargeReceives::LargeReceives(const btl::HandlerTable& handlers, std::uint64_t limit, bool& retry) noexcept
    : handlers_(handlers), limit_(limit), retry_(retry) {}

LargeReceives::~LargeReceives() = default;

void LargeReceives::on_offer(btl::Delivery& delivery) noexcept {
  btl::Endpoint& from = delivery.from;
  const auto parsed = wire::parse_offer(delivery.data);
  const auto refuse = [&](Errc code) {
    std::uint64_t name = 0;  // the first field of a LargeOffer
    if (read_object(delivery.data, name)) send_end(from, {name, static_cast<std::uint64_t>(code)});
  };
  if (!parsed) {
    log::warn("am", "{}: {}", to_string(from.peer()), to_string(parsed.error()));
    return refuse(parsed.error().code);
  }
  if (handlers_.find(parsed->offer.tag) == nullptr) {
    btl::Delivery unwanted{from, parsed->offer.tag, {}};
    handlers_.dispatch(unwanted);  // reports it
    return refuse(Errc::not_supported);
  }
  const auto known = peers_.find(&from);
  if (known != peers_.end() && known->second.leaving) return;
  if (known != peers_.end() && known->second.messages.size() >= wire::kMostOffers) return refuse(Errc::protocol);
  const bool supplied = sources_.contains(parsed->offer.tag);
  if (!supplied && parsed->total() > limit_) {
    log::warn("am", "message of {} bytes from {} refused: am_large_limit is {}", parsed->total(),
              to_string(from.peer()), limit_);
    return refuse(Errc::limit_reached);
  }
  peers_[&from].messages.push_back(std::make_unique<Incoming>(*this, from, *parsed));
  ++waiting_;
  start(from);
  retry_ = retry_ || waits();
}

/// False: the message waits for memory.  True: it has memory, or is refused (`why`), or no longer exists.
bool LargeReceives::take_memory(Incoming& message) noexcept {
  if (const auto found = sources_.find(message.offer.tag); found != sources_.end()) {
    const BufferSource source = found->second;
    btl::Endpoint& from = message.from;
    std::byte* const buffer = source.allocate(source.object, *static_cast<Endpoint*>(from.upper), message.offer.tag,
                                              message.header, message.total());
    if (!still_exists(from, message)) {  // allocate() called the library, which found the peer dead
      if (buffer != nullptr && source.release != nullptr) source.release(source.object, buffer);
      return true;
    }
    message.source = source;
    message.buffer = buffer;
    if (buffer == nullptr) message.why = {Errc::limit_reached, 0, "BufferSource: no buffer", message.total()};
    return true;
  }
  if ((first_without_memory_ != nullptr && first_without_memory_ != &message) || message.total() > limit_ - held_) {
    // A tag whose source was cleared after the offer uses library memory: the limit applies.
    if (message.total() > limit_) {
      message.why = {Errc::limit_reached, 0, "large message: longer than am_large_limit", message.total()};
      return true;
    }
    if (first_without_memory_ == nullptr) first_without_memory_ = &message;
    return false;
  }
  first_without_memory_ = nullptr;
  message.own = take_block(message.total());
  message.buffer = message.own.memory.get();
  if (message.buffer == nullptr) {
    message.why = {Errc::no_memory, 0, "large message: no memory", message.total()};
  } else {
    held_ += message.own.size;
  }
  return true;
}

LargeReceives::Block LargeReceives::take_block(std::size_t size) noexcept {
  const auto fits = std::find_if(spares_.begin(), spares_.end(), [&](const Block& spare) {
    return spare.size >= size && spare.size / 2 <= size && held_ + spare.size <= limit_;
  });
  Block block;
  if (fits != spares_.end()) {
    block = std::move(*fits);
    spares_.erase(fits);
    spare_bytes_ -= block.size;
    return block;
  }
  while (held_ + spare_bytes_ + size > limit_) forget_oldest_spare();
  return {std::unique_ptr<std::byte[]>{new (std::nothrow) std::byte[size]}, size};
}

void LargeReceives::give_back(Block block) noexcept {
  held_ -= block.size;
  if (block.size > kMostSpareBytes) return;
  while (spare_bytes_ + block.size > kMostSpareBytes) forget_oldest_spare();
  spare_bytes_ += block.size;
  spares_.push_back(std::move(block));
}

void LargeReceives::forget_oldest_spare() noexcept {
  spare_bytes_ -= spares_.front().size;
  spares_.pop_front();
}

/// Compares addresses only: `message` may be destroyed already.
bool LargeReceives::still_exists(btl::Endpoint& route, const Incoming& message) const noexcept {
  const auto peer = peers_.find(&route);
  return peer != peers_.end() && std::any_of(peer->second.messages.begin(), peer->second.messages.end(),
                                             [&](const auto& each) { return each.get() == &message; });
}

bool LargeReceives::start(btl::Endpoint& route) noexcept {
  for (;;) {
    // A post may find the peer dead, which destroys the route's entry and its messages.
    const auto peer = peers_.find(&route);
    if (peer == peers_.end() || peer->second.leaving) return true;
    auto& messages = peer->second.messages;
    std::size_t first = 0;
    while (first < messages.size() && messages[first]->state != State::waiting) ++first;
    if (first == messages.size()) return true;
    Incoming& message = *messages[first];
    if (message.buffer == nullptr && !take_memory(message)) return false;
    if (!still_exists(route, message)) continue;
    if (message.buffer == nullptr) {
      --waiting_;
      mark_arrived(message, message.why);
      continue;
    }
    message.state = State::getting;
    --waiting_;
    const Post post = route.module().get(route, message.buffer + message.header.size(), nullptr, message.offer.address,
                                         message.handle, message.offer.size, message);
    if (post == Post::queued || !still_exists(route, message)) continue;
    if (post == Post::again) {
      message.state = State::waiting;
      ++waiting_;
      return false;
    }
    mark_arrived(message, post == Post::failed ? message.error : Error{});
  }
}

void LargeReceives::mark_arrived(Incoming& message, const Error& why) noexcept {
  message.state = State::arrived;
  message.why = why;
  if (why.code == Errc{} && !message.header.empty()) {
    copy_host_memory(message.buffer, message.header.data(), message.header.size());
  }
  deliver(message.from);
}

void LargeReceives::deliver(btl::Endpoint& route) noexcept {
  for (;;) {
    // A handler may find the peer dead, which destroys the route's entry and its messages.
    const auto peer = peers_.find(&route);
    if (peer == peers_.end() || peer->second.leaving) return;
    auto& messages = peer->second.messages;
    if (messages.empty()) {
      peers_.erase(peer);
      return;
    }
    if (messages.front()->state != State::arrived) return;
    const std::unique_ptr<Incoming> message = std::move(messages.front());
    messages.pop_front();
    if (message->why.code == Errc{} && handlers_.find(message->offer.tag) == nullptr) {
      message->why = {Errc::not_supported, 0, "large message: its handler was cleared", message->offer.tag};
    }
    if (message->why.code == Errc{}) {
      btl::Delivery delivery{route, message->offer.tag, {message->buffer, message->total()}};
      message->source = {};  // from here on the handler owns the buffer
      handlers_.dispatch(delivery);
    }
    send_end(route, {message->offer.name, static_cast<std::uint64_t>(message->why.code)});
    drop(*message);
  }
}

/// Frees or releases the message's memory.
void LargeReceives::drop(Incoming& message) noexcept {
  if (first_without_memory_ == &message) first_without_memory_ = nullptr;
  if (message.own.memory != nullptr) give_back(std::move(message.own));
  if (message.buffer != nullptr && message.source.release != nullptr) {
    message.source.release(message.source.object, message.buffer);
  }
}

bool LargeReceives::send_now(const End& end) noexcept {
  return end.to->module().send_inline(*end.to, wire::kLargeEnd, bytes_of(end.end), {}) != Post::again;
}

void LargeReceives::send_end(btl::Endpoint& to, const wire::LargeEnd& end) noexcept {
  if (to.dead()) return;
  if (const auto peer = peers_.find(&to); peer != peers_.end() && peer->second.leaving) return;
  if (ends_.empty() && send_now({&to, end})) return;
  ends_.push_back({&to, end});
  retry_ = true;
}

std::size_t LargeReceives::advance() noexcept {
  std::size_t count = 0;
  for (std::size_t left = ends_.size(); left != 0 && !ends_.empty(); --left) {
    const End end = ends_.front();
    ends_.pop_front();
    if (end.to->dead()) continue;
    if (send_now(end)) {
      ++count;
    } else {
      ends_.push_back(end);
    }
  }
  if (waiting_ == 0) return count;
  std::vector<btl::Endpoint*> routes;
  for (const auto& [route, peer] : peers_) routes.push_back(route);
  const std::size_t before = waiting_;
  for (btl::Endpoint* route : routes) start(*route);
  return count + (waiting_ < before ? before - waiting_ : 0);
}

void LargeReceives::leave(const btl::Endpoint& route) noexcept {
  if (const auto peer = peers_.find(const_cast<btl::Endpoint*>(&route)); peer != peers_.end()) {
    peer->second.leaving = true;
  }
}

void LargeReceives::route_gone(const btl::Endpoint& route) noexcept {
  std::erase_if(ends_, [&](const End& end) { return end.to == &route; });
  auto ended = peers_.extract(const_cast<btl::Endpoint*>(&route));
  if (ended.empty()) return;
  for (const auto& message : ended.mapped().messages) {
    if (message->state == State::waiting) --waiting_;
    drop(*message);
  }
}

}  // namespace opal::am
