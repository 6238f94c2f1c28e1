// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/rails/endpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "opal/btl/rails/module.hpp"
#include "opal/core/clock.hpp"
#include "opal/core/log.hpp"
#include "opal/core/system/random.hpp"

namespace opal::btl::rails {
namespace {

constexpr std::uint64_t kAttemptEvery = 1'000'000'000;  // ns between attempts to connect missing rails

/// a - b, for numbers that wrap around.
std::int32_t distance(std::uint32_t a, std::uint32_t b) noexcept { return static_cast<std::int32_t>(a - b); }

}  // namespace

Endpoint::Endpoint(Module& module, const PeerId& peer, std::size_t rails)
    : btl::Endpoint(module, peer), session(random_u64() | 1), rails_(module), routes_(rails) {
  for (std::size_t i = 0; i < rails; ++i) {
    routes_[i].owner = this;
    routes_[i].rail = static_cast<std::uint32_t>(i);
  }
}

std::string Endpoint::describe() const {
  std::string text =
      fmt::format("rails, {} messages sent and {} confirmed, {} received and {} of those acknowledged:", next_,
                  confirmed_, expected_, confirmation_sent_);
  for (const Route& route : routes_) {
    text += fmt::format(" {}{}{}", route.rail, &route == current_ ? " (messages): " : ": ",
                        route.below != nullptr ? route.below->describe() : "not connected");
  }
  return text;
}

bool Endpoint::one_sided() const noexcept {
  return std::ranges::any_of(routes_,
                             [](const Route& route) { return route.below != nullptr && route.below->one_sided(); });
}

// ---- Routes -----------------------------------------------------------------------------------------------------

bool Endpoint::connect(Route& route) noexcept {
  route.tried = true;
  const auto below = route.rail < addresses.size()
                         ? rails_.rail(route.rail).connect(peer(), addresses[route.rail])
                         : Error{Errc::unreachable, 0, "rails: the peer has fewer rails", addresses.size()};
  if (!below) {
    if (reason_.code == Errc{}) reason_ = below.error();
    return false;
  }
  // The rail knows one connection per peer, and this one ends with the module's next progress().
  if (rails_.is_ending(**below, route)) {
    route.tried = false;
    return false;
  }
  rails_.adopt(**below, route);
  return true;
}

Result<void> Endpoint::connect() noexcept {
  current_ = choose();
  if (current_ == nullptr && reason_.code != Errc{}) return reason_;
  reason_ = {};
  rails_.settle_later(*this);
  return {};
}

Route* Endpoint::choose() noexcept {
  for (Route& route : routes_) {
    if (route.below != nullptr && !route.below->dead()) return &route;
  }
  for (Route& route : routes_) {
    if (route.below == nullptr && !route.tried && connect(route)) return &route;
  }
  return nullptr;
}

bool Endpoint::has_other_route(const Route& route) const noexcept {
  return std::ranges::any_of(routes_, [&](const Route& other) {
    if (&other == &route) return false;
    return usable(other) || (other.below == nullptr && other.lost == 0 && other.rail < addresses.size());
  });
}

void Endpoint::connect_missing_rails() noexcept {
  const std::uint64_t now = now_ns();
  if (now - last_attempt_ns_ < kAttemptEvery) return;
  last_attempt_ns_ = now;
  for (Route& route : routes_) {
    if (route.below == nullptr && connect(route)) rails_.settle_later(*this);
  }
}

void Endpoint::set_connection(Route& route, btl::Endpoint* below) noexcept {
  if (current_ == &route) current_ = nullptr;  // settle() sends again what the old connection had in flight
  if (route.below != nullptr) {
    route.lost = route.connection;
    // A `down` or its `fenced` may have been lost with it.
    for (Route& each : routes_) each.down_sent = false;
  }
  route.below = below;
  if (below != nullptr) ++route.connection;
  route.hello_sent = route.hello_received = false;
  route.peer_connection = 0;
  route.loaded = 0;
}

void Endpoint::on_lost(Route& route, const Error& why) noexcept {
  log::info("btl.rails", "peer {}: rail {} has broken: {}", to_string(peer()), route.rail, opal::to_string(why));
  set_connection(route, nullptr);
  if (!broken_) reason_ = why;  // replaces an earlier error of connect(), which says less
  rails_.settle_later(*this);
}

void Endpoint::break_off(const Error& why) noexcept {
  if (broken_) return;
  broken_ = true;
  reason_ = why;
  rails_.settle_later(*this);
}

void Endpoint::send_hello(Route& route) noexcept {
  const wire::Hello hello{session, peer_session};
  const ByteSpan address = rails_.address();
  std::vector<std::byte> bytes(sizeof hello + address.size());
  std::memcpy(bytes.data(), &hello, sizeof hello);
  std::copy(address.begin(), address.end(), bytes.begin() + sizeof hello);
  route.hello_sent = send_control(route, wire::Kind::hello, bytes, route.rail, route.connection) == Post::done;
}

bool Endpoint::unsettled() const noexcept {
  if (broken_ || current_ == nullptr || current_->below == nullptr) return true;
  if (sent_ != next_ || expected_ - confirmation_sent_ >= kWindow / 2) return true;
  return std::ranges::any_of(routes_, [](const Route& route) {
    return (route.below != nullptr && !route.hello_sent) || (route.fenced != route.lost && !route.down_sent) ||
           route.fenced_to_send != 0;
  });
}

bool Endpoint::settle() noexcept {
  if (broken_) return false;
  if (current_ == nullptr || current_->below == nullptr || current_->below->dead()) {
    current_ = choose();
    if (current_ == nullptr) {
      if (reason_.code == Errc{}) reason_ = {Errc::peer_gone, 0, "rails: no rail reaches the peer"};
      return false;
    }
    log::info("btl.rails", "peer {}: messages go over rail {}", to_string(peer()), current_->rail);
    sent_ = confirmed_;
    // A new confirmation is due: the last one may be lost with the route.
    confirmation_sent_ = expected_ - kWindow / 2;
  }
  for (Route& route : routes_) {
    if (route.below != nullptr && !route.hello_sent) send_hello(route);
  }
  if (!current_->hello_sent) return true;
  while (sent_ != next_ && send_kept(sent_) == Post::done) ++sent_;
  if (sent_ != next_) return true;
  if (!send_fences()) return true;
  if (expected_ - confirmation_sent_ >= kWindow / 2) (void)send_control(*current_, wire::Kind::taken, {});
  return true;
}

// ---- Fences -----------------------------------------------------------------------------------------------------

/// The peer has lost its connection of that number on that rail: ours ends, too, unless it is known to be a later one.
void Endpoint::on_down(Route& route, const Route& over, std::uint32_t connection) noexcept {
  const bool later = &route == &over || (route.hello_received && route.peer_connection > connection);
  if (route.below != nullptr && !later) {
    const bool known = route.hello_received && route.peer_connection == connection;
    rails_.retire(*route.below);
    set_connection(route, nullptr);
    if (known) route.fenced = route.lost;  // the peer's end of it has ended: it need not be asked
  }
  // Module::settle() first ends the retired connection.
  route.fenced_to_send = std::max(route.fenced_to_send, connection);
  rails_.settle_later(*this);
}

bool Endpoint::send_fences() noexcept {
  for (Route& route : routes_) {
    if (route.fenced != route.lost && !route.down_sent) {
      if (send_control(*current_, wire::Kind::down, {}, route.rail, route.lost) != Post::done) return false;
      route.down_sent = true;
    }
    if (route.fenced_to_send != 0) {
      if (send_control(*current_, wire::Kind::fenced, {}, route.rail, route.fenced_to_send) != Post::done) return false;
      route.fenced_to_send = 0;
    }
  }
  return true;
}

// ---- Messages ---------------------------------------------------------------------------------------------------

Post Endpoint::send_control(Route& route, wire::Kind kind, ByteSpan payload, std::uint32_t rail,
                            std::uint32_t connection) noexcept {
  const wire::Envelope envelope{0, expected_, 0, kind, static_cast<std::uint8_t>(rail), connection};
  const Post post = route.below->module().send_inline(*route.below, wire::kTag, bytes_of(envelope), payload);
  // The peer may drop a hello, and the confirmation with it.
  if (post == Post::done && kind != wire::Kind::hello) confirmation_sent_ = expected_;
  return post;
}

Post Endpoint::send_kept(std::uint32_t number) noexcept {
  std::vector<std::byte>& bytes = kept_[number % kWindow];
  wire::Envelope envelope;
  std::memcpy(&envelope, bytes.data(), sizeof envelope);
  envelope.taken = expected_;
  std::memcpy(bytes.data(), &envelope, sizeof envelope);
  const Post post = current_->below->module().send_inline(*current_->below, wire::kTag, bytes, {});
  if (post == Post::done) confirmation_sent_ = expected_;
  return post;
}

Post Endpoint::send(Tag tag, ByteSpan header, ByteSpan payload) noexcept {
  const bool ready = !broken_ && current_ != nullptr && current_->below != nullptr && current_->hello_sent &&
                     sent_ == next_ && next_ - confirmed_ < kWindow;
  if (!ready) return Post::again;
  std::vector<std::byte>& bytes = kept_[next_ % kWindow];
  const wire::Envelope envelope{next_, expected_, tag, wire::Kind::message, 0, 0};
  bytes.clear();  // its room stays from message to message; resize() would fill it with zeros first
  bytes.reserve(sizeof envelope + header.size() + payload.size());
  for (const ByteSpan part : {bytes_of(envelope), header, payload}) bytes.insert(bytes.end(), part.begin(), part.end());
  if (send_kept(next_) != Post::done) return Post::again;  // a broken route is replaced by settle()
  sent_ = ++next_;
  return Post::done;
}

void Endpoint::confirm(std::uint32_t taken) noexcept {
  if (distance(taken, confirmed_) < 0) return;  // an older confirmation, from a message that came late
  if (distance(taken, next_) > 0) {
    return break_off({Errc::protocol, 0, "rails: the peer confirms what was never sent", taken});
  }
  confirmed_ = taken;
  if (distance(sent_, confirmed_) < 0) sent_ = confirmed_;
}

void Endpoint::on_hello_received(Route& route) noexcept {
  route.hello_received = true;
  for (Route& each : routes_) each.tried = false;
}

void Endpoint::on_message(Route& route, const wire::Envelope& envelope, ByteSpan payload) noexcept {
  if (broken_ || dead()) return;
  if (!route.hello_received) return break_off({Errc::protocol, 0, "rails: a message before the peer's hello"});
  if (envelope.rail >= routes_.size()) return break_off({Errc::protocol, 0, "rails: no such rail", envelope.rail});
  confirm(envelope.taken);
  if (broken_) return;
  for (Route& each : routes_) each.tried = false;
  reason_ = {};
  switch (envelope.kind) {
    case wire::Kind::message: {
      const std::int32_t ahead = distance(envelope.number, expected_);
      if (ahead < 0) return;  // sent again, and not needed
      if (ahead > 0) return break_off({Errc::protocol, 0, "rails: a message is missing", envelope.number});
      ++expected_;
      rails_.deliver(*this, envelope.tag, payload);
      if (expected_ - confirmation_sent_ >= kWindow / 2) rails_.settle_later(*this);
      return;
    }
    case wire::Kind::taken: return;
    case wire::Kind::down: return on_down(routes_[envelope.rail], route, envelope.connection);
    case wire::Kind::fenced: {
      Route& fenced = routes_[envelope.rail];
      if (envelope.connection > fenced.lost) {
        return break_off({Errc::protocol, 0, "rails: a fence that was not asked for"});
      }
      fenced.fenced = std::max(fenced.fenced, envelope.connection);
      return;
    }
    case wire::Kind::goodbye: return break_off({Errc::peer_gone, 0, "the peer has disconnected"});
    default:
      return break_off(
          {Errc::protocol, 0, "rails: unknown kind of message", static_cast<std::uint64_t>(envelope.kind)});
  }
}

bool Endpoint::leave() noexcept {
  if (!settle()) return true;  // no peer
  if (sent_ != next_) return false;
  if (current_->hello_sent) (void)send_control(*current_, wire::Kind::goodbye, {});
  return true;
}

void Endpoint::retry_rails() noexcept {
  reason_ = {};
  for (Route& route : routes_) route.tried = false;
}

}  // namespace opal::btl::rails
