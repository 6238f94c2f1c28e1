// SPDX-License-Identifier: Apache-2.0
// opal/btl/rails/endpoint.hpp — one peer over several rails: a route per rail, and the messages that the peer has not
// confirmed.  One route carries the messages.  A message is kept until the peer confirms that its handler was called
// (Envelope::taken, part of every message).  If the connection of that route breaks, the unconfirmed messages are sent
// again by another route, and the receiver drops by number those that it already has.  So each message is handled once,
// in order.
// A put of a broken connection may still be in the network, or wait at the peer to be executed.  So this side sends
// `down`, the peer ends its side of that connection and sends `fenced`, and only then is the put posted again on
// another rail.  A get is posted again at once.
// Owned by its module.  Threads: as btl::Module.
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

/// The connection to a peer over one rail, if there is one.  btl::Endpoint::upper of `below` points here.
struct Route {
  btl::Endpoint* below = nullptr;  ///< endpoint of the rail's module; null: not connected
  Endpoint* owner = nullptr;       ///< null: an accepted connection whose hello has not come yet
  std::uint32_t rail = 0;
  bool hello_sent = false;      ///< our hello was sent
  bool hello_received = false;  ///< the peer's hello has come
  bool tried = false;           ///< connect() was attempted since the peer's last message
  std::uint64_t loaded = 0;     ///< bytes of puts and gets in flight
  // Each side numbers its connections on a rail from 1.  "Our number" counts ours, "the peer's" those of the peer.
  std::uint32_t connection = 0;       ///< our number of the latest connection
  std::uint32_t peer_connection = 0;  ///< the peer's number of the present connection; 0: no hello yet
  std::uint32_t lost = 0;             ///< our number of the latest connection that has ended
  /// Our number: the peer has ended its side of this and all earlier connections, so no put of them arrives any more.
  std::uint32_t fenced = 0;
  bool down_sent = false;  ///< `down` for `lost` was sent by the present route of messages
  /// The peer's number of a connection for which `fenced` has still to be sent; 0: none.
  std::uint32_t fenced_to_send = 0;
};

class Endpoint final : public btl::Endpoint {
 public:
  static constexpr std::uint32_t kWindow = 64;  ///< messages that may be sent and not confirmed

  Endpoint(Module& module, const PeerId& peer, std::size_t rails);

  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] bool one_sided() const noexcept override;

  /// Requires: the endpoint is not dead, and the message is not longer than max_send.
  Post send(Tag tag, ByteSpan header, ByteSpan payload) noexcept;

  /// Handles a message that came by `route`, except hello, which the module handles.  The bytes are not checked yet.
  void on_message(Route& route, const wire::Envelope& envelope, ByteSpan payload) noexcept;

  /// Sets the connection of a route (null: none).  The one that it had counts as lost; if messages used it, settle()
  /// sends again what is not confirmed.
  void set_connection(Route& route, btl::Endpoint* below) noexcept;
  /// The connection of the route has failed.
  void on_lost(Route& route, const Error& why) noexcept;
  /// Lets the module end this endpoint in its next progress() with the first reason given.
  void break_off(const Error& why) noexcept;

  /// Does what is pending: chooses or connects a route for messages, sends hellos, unconfirmed messages, `down`,
  /// `fenced` and confirmations.  False: the endpoint must be ended, with reason().
  [[nodiscard]] bool settle() noexcept;
  /// Whether settle() has something to do.
  [[nodiscard]] bool unsettled() const noexcept;
  [[nodiscard]] const Error& reason() const noexcept { return reason_; }

  /// Disconnect: sends the unsent messages and, if hello was sent, a goodbye.  False: some remain, call again.  True:
  /// all sent, or the peer cannot be reached.
  bool leave() noexcept;
  /// Clears reason() and lets every rail be connected again, for the unsent messages after a disconnect.
  void retry_rails() noexcept;
  void end(const Error& why) noexcept { mark_dead(why); }

  /// Whether the route can carry puts and gets: connected, and the peer's hello has come.
  [[nodiscard]] static bool usable(const Route& route) noexcept {
    return route.below != nullptr && route.hello_received && !route.below->dead();
  }
  /// Whether another route is usable, or another rail was not connected yet.
  [[nodiscard]] bool has_other_route(const Route& route) const noexcept;
  [[nodiscard]] std::vector<Route>& routes() noexcept { return routes_; }
  /// The peer's hello has come by this route; rails that failed to connect may be tried again.
  void on_hello_received(Route& route) noexcept;
  /// Tries to connect the rails without a connection; at most once a second.
  void connect_missing_rails() noexcept;
  /// Chooses or connects a route for messages.  If none can be connected now only because its old connection is still
  /// being disconnected, succeeds, and settle() connects.  Errors: of the first rail that failed, if none is connected.
  Result<void> connect() noexcept;

  const std::uint64_t session;                    ///< random number that names this endpoint in hellos
  std::uint64_t peer_session = 0;                 ///< that of the peer's endpoint; 0: no hello yet
  std::vector<std::vector<std::byte>> addresses;  ///< of the peer, by rail
  // After a disconnect with unsent messages:
  Deadline leave_until = Deadline::never();  ///< until then it tries to send them
  bool left = false;                         ///< nothing more is sent; the module destroys the endpoint

 private:
  bool connect(Route& route) noexcept;
  [[nodiscard]] Route* choose() noexcept;
  void send_hello(Route& route) noexcept;
  Post send_kept(std::uint32_t number) noexcept;
  Post send_control(Route& route, wire::Kind kind, ByteSpan payload, std::uint32_t rail = 0,
                    std::uint32_t connection = 0) noexcept;
  /// The peer's `down` for its connection of that number on `route` came by `over`: ends our side of it.
  void on_down(Route& route, const Route& over, std::uint32_t connection) noexcept;
  bool send_fences() noexcept;
  void confirm(std::uint32_t taken) noexcept;

  Module& rails_;
  std::vector<Route> routes_;  // by rail; not resized, since endpoints below and pieces point to the elements
  Route* current_ = nullptr;   // the one that carries messages; null: to be chosen by settle()
  std::array<std::vector<std::byte>, kWindow> kept_;  // envelope and message, by number % kWindow, until confirmed
  std::uint32_t next_ = 0;                            // number of the next message
  std::uint32_t sent_ = 0;                            // number of the next message to send on current_
  std::uint32_t confirmed_ = 0;                       // the peer has handled all messages before this number
  std::uint32_t expected_ = 0;                        // number of the peer's next message
  std::uint32_t confirmation_sent_ = 0;               // value of expected_ that was sent last
  std::uint64_t last_attempt_ns_ = 0;
  bool broken_ = false;  // break_off() was called
  Error reason_{};
};

}  // namespace opal::btl::rails
