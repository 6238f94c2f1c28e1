// SPDX-License-Identifier: Apache-2.0
// opal/btl/rails/endpoint.hpp — one peer over several rails: its routes, and the messages that it has not confirmed.
// A message is kept until the peer has said that its handler ran (Envelope::taken, which rides on messages).  When the
// route of messages breaks, another carries again what is not confirmed; the receiver drops what it has by number.  So
// each message is handled once, in order.
// A put of a broken rail may still be on its way, or wait at the peer to be carried out.  So the peer is told (`down`),
// gives up its own end of that connection, and says so (`fenced`); only then a put goes again by another rail.
// Owned by its module; threads as that.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "opal/btl/endpoint.hpp"
#include "opal/btl/post.hpp"
#include "opal/btl/rails/wire.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/clock.hpp"
#include "opal/core/result.hpp"

namespace opal::btl::rails {

class Endpoint;
class Module;

/// One rail's way to a peer.  Named by the endpoint below as its `upper`.
struct Route {
  btl::Endpoint* below = nullptr;  ///< null: none (any more)
  Endpoint* owner = nullptr;       ///< null: unauthenticated: no hello yet
  std::uint32_t rail = 0;
  bool hello_sent = false;   ///< our hello went out
  bool heard = false;        ///< the peer's came
  bool tried = false;        ///< connected to since the peer was last heard of
  std::uint64_t loaded = 0;  ///< bytes of puts and gets in flight
  // Connections are counted from 1, by each side for itself.
  std::uint32_t made = 0;        ///< the latest of ours
  std::uint32_t peer_made = 0;   ///< the peer's number of this one; 0: not heard
  std::uint32_t lost = 0;        ///< the latest of ours that has ended
  std::uint32_t fenced = 0;      ///< of which nothing comes through any more, nor of those before
  bool told = false;             ///< the peer, of `lost`
  std::uint32_t to_confirm = 0;  ///< of the peer's that have ended, one that is fenced here; 0: it knows
};

class Endpoint final : public btl::Endpoint {
 public:
  static constexpr std::uint32_t kWindow = 64;  ///< messages that may be unconfirmed

  Endpoint(Module& module, const PeerId& peer, std::size_t rails);

  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] bool one_sided() const noexcept override;

  Post send(Tag tag, ByteSpan header, ByteSpan payload) noexcept;

  /// A message of the peer on one of the routes; the bytes are the peer's.  Hellos are the module's.
  void on_message(Route& route, const wire::Envelope& envelope, ByteSpan payload) noexcept;

  /// The route has another endpoint below, or none.
  void attach(Route& route, btl::Endpoint* below) noexcept;
  /// The route below has ended.
  void on_lost(Route& route, const Error& why) noexcept;
  /// Ends it at the module's next look; the first reason counts.
  void break_off(const Error& why) noexcept;

  /// Finds a route for messages if there is none, sends hello, sends again, confirms.  False: there is no way to the
  /// peer, and reason() says why.
  [[nodiscard]] bool settle() noexcept;
  /// Whether settle() has something to do.
  [[nodiscard]] bool unsettled() const noexcept;
  [[nodiscard]] const Error& reason() const noexcept { return reason_; }

  /// Before its routes are taken away: sends what is left, and a goodbye.  False: there is something left.
  bool leave() noexcept;
  /// Goes on leaving over new connections.
  void leave_anew() noexcept;
  void end(const Error& why) noexcept { mark_dead(why); }

  /// Carries puts and gets.
  [[nodiscard]] static bool usable(const Route& route) noexcept {
    return route.below != nullptr && route.heard && !route.below->dead();
  }
  /// Whether the peer may be reached by another route than this one.
  [[nodiscard]] bool has_other_way(const Route& route) const noexcept;
  [[nodiscard]] std::vector<Route>& routes() noexcept { return routes_; }
  /// The peer's hello has come by this route: whatever failed before may be tried again.
  void on_heard(Route& route) noexcept;
  /// Connects rails that have no route; once a second at most.
  void widen() noexcept;
  /// The first route, or one later when all of them wait for an end; errors: of the first rail that was tried.
  Result<void> connect() noexcept;

  const std::uint64_t session;               ///< this endpoint's name
  std::uint64_t peer_session = 0;            ///< the peer's; 0: not known yet
  std::vector<std::vector<std::byte>> ways;  ///< the peer's address on each rail
  // Disconnected, with messages that no rail has taken yet.
  Deadline leave_until = Deadline::never();
  bool left = false;

 private:
  bool connect(Route& route) noexcept;
  [[nodiscard]] Route* choose() noexcept;
  void send_hello(Route& route) noexcept;
  Post send_kept(std::uint32_t number) noexcept;
  Post send_control(Route& route, wire::Kind kind, ByteSpan payload, std::uint32_t rail = 0,
                    std::uint32_t made = 0) noexcept;
  void fence(Route& route, const Route& over, std::uint32_t made) noexcept;
  bool tell_fences() noexcept;
  void confirm(std::uint32_t taken) noexcept;

  Module& rails_;
  std::vector<Route> routes_;  // by rail; never moves
  Route* current_ = nullptr;   // of messages
  std::array<std::vector<std::byte>, kWindow> kept_;
  std::uint32_t next_ = 0;       // number of the next message
  std::uint32_t sent_ = 0;       // of the next to go out on this route
  std::uint32_t confirmed_ = 0;  // all before it
  std::uint32_t expected_ = 0;   // of the peer's next
  std::uint32_t told_ = 0;       // how much of that the peer knows
  std::uint64_t widened_ns_ = 0;
  bool broken_ = false;
  Error reason_{};
};

}  // namespace opal::btl::rails
