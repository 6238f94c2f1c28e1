// SPDX-License-Identifier: Apache-2.0
// opal/btl/portals4/messages/flows.hpp — the order of messages per peer.  A receiver without room disables its entry of
// the portal table (flow control), and the interface refuses all messages until it is enabled again.  The interface can
// refuse a message and accept a later one.  So each message has a number (hdr_data):
//   sender    keeps refused messages and sends nothing new to that peer.  It sends the first refused one alone until it
//             is accepted, then the others.
//   receiver  keeps messages that are early, and handles them when those before have arrived.  Credits bound their
//             number.
// Numbers count from 0 per endpoint.  Owned by the module.  Threads: as the module.
#pragma once
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "opal/btl/portals4/device/interface.hpp"
#include "opal/btl/shared/rdm/send_buffers.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/export.hpp"

namespace opal::btl::portals4 {

struct SendBuffer : Operation, rdm::SendBuffer {
  SendBuffer() noexcept : Operation(Kind::message) {}
  std::uint64_t number = 0;  ///< of the message, while it is in flight or refused
  std::size_t size = 0;      ///< bytes of that message
};

/// The messages to and from one endpoint.
class OPAL_EXPORT Flow {
 public:
  /// Early messages that a receiver keeps.  A peer has at most its window of messages and a few control frames in
  /// flight.
  static constexpr std::uint64_t kMostEarly = 320;

  explicit Flow(std::uint32_t key) noexcept : key_(key) {}
  /// Key of the endpoint.
  [[nodiscard]] std::uint32_t key() const noexcept { return key_; }

  // --- Sending

  /// True if new messages must wait, since refused ones go first and the first of them goes alone.
  [[nodiscard]] bool blocked() const noexcept { return probing_ || !refused_.empty(); }
  [[nodiscard]] std::uint64_t next_number() const noexcept { return next_; }
  void on_posted() noexcept { ++next_, ++in_flight_; }
  /// A message was refused for lack of room.
  void on_refused(SendBuffer& buffer);
  /// A message was accepted, or has failed for another reason.
  void on_ended() noexcept;
  /// The next refused message to send again; null: none is refused, or messages in flight have no event
  /// yet and no probe was accepted.
  [[nodiscard]] SendBuffer* to_repeat() noexcept;
  /// to_repeat() was posted.
  void on_repeated() noexcept;
  /// Takes the refused messages out; of an endpoint that has ended.
  [[nodiscard]] std::vector<SendBuffer*> give_up() noexcept { return std::exchange(refused_, {}); }

  // --- Receiving

  enum class Arrival : std::uint8_t { in_order, early, wrong };
  /// Classifies a message; keeps a copy of an early one.  `wrong`: the peer repeats a number, or is too far ahead.
  Arrival on_arrival(std::uint64_t number, ByteSpan message);
  /// Takes the early message that is due now; empty: there is none.
  [[nodiscard]] std::vector<std::byte> take_due();

 private:
  std::uint32_t key_;
  std::uint64_t next_ = 0;
  std::uint32_t in_flight_ = 0;
  bool probing_ = false;              // one refused message is in flight again, alone
  bool open_ = false;                 // the last probe was accepted: the other refused ones follow without a wait
  std::vector<SendBuffer*> refused_;  // by number
  std::uint64_t expected_ = 0;
  std::map<std::uint64_t, std::vector<std::byte>> early_;  // by number
};

}  // namespace opal::btl::portals4
