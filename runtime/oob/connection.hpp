// SPDX-License-Identifier: Apache-2.0
// runtime/oob/connection.hpp — one peer of the OOB channel: a Stream that begins on the base endpoint (tcp) and moves
// to the endpoint of a transport upgrade when both sides have agreed on one.  docs/design/oob.md has the protocol and
// the fallback.  The endpoints belong to their Contexts.  Threads: as the endpoints' Contexts.
#pragma once
#include <string>

#include "runtime/oob/stream.hpp"

namespace runtime::oob {

/// What a Connection needs for its transport upgrade.  Connection calls it from step() and end() only, outside of
/// progress().
class Upgrader {
 public:
  virtual ~Upgrader() = default;
  /// The address of this process with all its transports; empty when it has no better transport.
  virtual ByteSpan upgrade_address() = 0;
  /// Connects to `address` by a better transport than that of `base`; null when there is none.
  virtual opal::am::Endpoint* connect_upgrade(ByteSpan address, const opal::am::Endpoint& base) = 0;
  virtual void disconnect_upgrade(opal::am::Endpoint& endpoint) = 0;
};

class Connection {
 public:
  static constexpr std::uint64_t kWorthwhile = 16;  ///< messages before the first attempt to upgrade
  static constexpr std::uint32_t kAttempts = 4;  ///< at most; each follows 8 times as many messages as the one before

  /// The side that connected requests the transport upgrade (asks); the other side sends its address (offers).
  enum class Role : std::uint8_t { asks, offers };

  Connection(opal::am::Endpoint& base, Role role, Upgrader& upgrader);

  [[nodiscard]] Stream& stream() noexcept { return stream_; }
  /// The base endpoint, dead or not.
  [[nodiscard]] opal::am::Endpoint& first() noexcept { return first_; }

  /// As Stream::receive(), for a piece or note from the base endpoint or that of the upgrade.
  Result<const Assembler::Message*> receive(opal::am::Endpoint& from, ByteSpan piece);

  /// True when an upgrade_hello with this note is from this peer; the caller then calls on_upgrade_hello().
  [[nodiscard]] bool expects(const Note& note) const noexcept;
  void on_upgrade_hello(opal::am::Endpoint& upgrade);

  /// The endpoint of the transport upgrade, in use or not yet; null: none.
  [[nodiscard]] opal::am::Endpoint* upgrade() const noexcept { return upgrade_; }

  /// True when step() has work.  It may become true with each message sent or received, each note, and the failure of
  /// an endpoint.  Always true when !alive().
  [[nodiscard]] bool needs_step() const noexcept;
  /// Requests, makes and ends transport upgrades.  Requires: not inside progress().
  void step();
  /// False when both endpoints have failed.
  [[nodiscard]] bool alive() const noexcept { return stream_.current() != nullptr; }
  /// Ends the transport upgrade, also one in progress.  Call it before the base endpoint is disconnected.
  void end();

 private:
  enum class State : std::uint8_t {
    none,        // no upgrade, none in progress
    wanted,      // asks: has sent want, awaits offer
    offered,     // offers: has sent offer, awaits upgrade_hello
    confirming,  // asks: has sent upgrade_hello, awaits upgrade_ready
    up,          // the upgrade is connected
  };
  Result<void> on_note(opal::am::Endpoint& from, Topic topic, ByteSpan content);
  void want();
  void answer_want();
  void send_hello();
  void lose();
  void post(opal::am::Endpoint& to, Topic topic, ByteSpan rest = {});
  [[nodiscard]] bool worthwhile() const noexcept;

  opal::am::Endpoint& first_;
  Upgrader& upgrader_;
  Role role_;
  Stream stream_;
  State state_ = State::none;
  std::uint32_t generation_ = 0;     // Note::generation of the last attempt
  std::uint64_t token_ = 0;          // Note::token of it
  std::uint64_t due_ = kWorthwhile;  // Stream::traffic() from which on the next attempt is made
  opal::am::Endpoint* upgrade_ = nullptr;
  bool asked_ = false;    // a want has come; step() answers it
  std::string offer_;     // the address in an offer; step() connects to it
  bool dropped_ = false;  // the peer has ended the upgrade; step() ends it here
};

}  // namespace runtime::oob
