// SPDX-License-Identifier: Apache-2.0
// runtime/oob/connection.hpp — one peer of the channel: a Stream that begins on one endpoint (tcp) and moves to a
// transport upgrade when there is one.  docs/design/oob.md: which side asks, what goes over which route, how it falls
// back. Threads: as the endpoints' Contexts.
#pragma once
#include <memory>
#include <string>

#include "runtime/oob/stream.hpp"

namespace runtime::oob {

/// What a Connection needs for its transport upgrade; called from step() only, which is outside of any progress().
class Upgrader {
 public:
  virtual ~Upgrader() = default;
  /// The address of this process with all its transports; empty: it has no better one.
  virtual ByteSpan upgrade_address() = 0;
  /// Connects to that address by a better transport than `base` has; null when there is none.
  virtual opal::am::Endpoint* connect_upgrade(ByteSpan address, const opal::am::Endpoint& base) = 0;
  virtual void disconnect_upgrade(opal::am::Endpoint& endpoint) = 0;
};

/// Connects when the best transport to that address is better than the one of `base`; null otherwise.
OPAL_EXPORT opal::am::Endpoint* connect_if_better(opal::am::Context& context, ByteSpan address,
                                                  const opal::am::Endpoint& base);

class OPAL_EXPORT Connection {
 public:
  /// A transport upgrade pays after so many messages; an attempt that came to nothing, after eight times
  /// more.
  static constexpr std::uint64_t kWorthwhile = 16;
  static constexpr std::uint32_t kAttempts = 4;

  /// The side that connected asks for the transport upgrade.
  enum class Role : std::uint8_t { asks, offers };

  Connection(opal::am::Endpoint& base, Role role, Upgrader& upgrader);

  [[nodiscard]] Stream& stream() noexcept { return stream_; }

  /// As Stream::receive, for what came by the base endpoint or the better one.
  Result<const Assembler::Message*> receive(opal::am::Endpoint& from, ByteSpan piece);

  /// Whether an upgrade_hello of a new endpoint is from this peer; then on_upgrade_hello().
  [[nodiscard]] bool expects(const Note& note) const noexcept;
  void on_upgrade_hello(opal::am::Endpoint& upgrade);

  /// The endpoint of the transport upgrade, as soon as there is one, in use or not; null: none.
  [[nodiscard]] opal::am::Endpoint* upgrade() const noexcept { return upgrade_; }

  /// True when step() has something to do: after a message either way, a note, the failure of an endpoint.
  /// Always, when no way is left.
  [[nodiscard]] bool needs_step() const noexcept;
  /// Asks for, makes, ends the transport upgrade.  Outside of progress().
  void step();
  /// False when no way is left.
  [[nodiscard]] bool alive() const noexcept { return stream_.current() != nullptr; }
  /// Ends the transport upgrade and whatever is in flight to one: before the base endpoint is disconnected.
  void end();

 private:
  enum class State : std::uint8_t {
    none,        // and none is being made
    wanted,      // asks: until the offer
    offered,     // offers: until the upgrade_hello
    confirming,  // asks: until its upgrade_hello is answered
    up,
  };
  Result<void> on_note(opal::am::Endpoint& from, Topic topic, ByteSpan content);
  void want();
  void answer_want();
  void send_hello();
  void lose();
  void post(opal::am::Endpoint& to, Topic topic, ByteSpan rest = {});
  [[nodiscard]] bool worthwhile() const noexcept;

  opal::am::Endpoint& first_;  // the base endpoint, dead or not
  Upgrader& upgrader_;
  Role role_;
  Stream stream_;
  State state_ = State::none;
  std::uint32_t generation_ = 0;
  std::uint64_t token_ = 0;
  std::uint64_t due_ = kWorthwhile;  // in messages of the stream
  opal::am::Endpoint* upgrade_ = nullptr;
  bool asked_ = false;    // the peer wants an offer
  std::string offer_;     // the peer's address, to be connected to
  bool dropped_ = false;  // the peer has ended the transport upgrade
};

}  // namespace runtime::oob
