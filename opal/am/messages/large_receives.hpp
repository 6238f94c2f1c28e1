// SPDX-License-Identifier: Apache-2.0
// opal/am/messages/large_receives.hpp — the receiver's half of large messages.  For each offer it takes memory, reads
// the payload by a get, runs the handler and sends a LargeEnd to the sender (docs/design/active-messages.md).
// Messages of one route are started and handled in the order of their offers, so a message never waits for memory that
// a later one holds.
// Owned by a Context.  Threads: under the Context's lock.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "opal/am/messages/buffer_source.hpp"
#include "opal/am/messages/large_wire.hpp"
#include "opal/btl/handlers.hpp"

namespace opal::btl {
class Endpoint;
}

namespace opal::am {

class LargeReceives {
 public:
  /// `limit`: most bytes that messages hold in memory of the library.  Borrows `handlers` and `retry`; sets `retry` to
  /// true when waits() becomes true.
  LargeReceives(const btl::HandlerTable& handlers, std::uint64_t limit, bool& retry) noexcept;
  LargeReceives(const LargeReceives&) = delete;
  LargeReceives& operator=(const LargeReceives&) = delete;
  ~LargeReceives();

  void set_source(Tag tag, const BufferSource& source) { sources_.insert_or_assign(tag, source); }
  void clear_source(Tag tag) noexcept { sources_.erase(tag); }

  /// The handler of wire::kLargeOffer.
  void on_offer(btl::Delivery& delivery) noexcept;
  /// Starts messages that wait for memory or for the transport, and sends LargeEnds that the transport did not take.
  /// Returns the number of events.
  std::size_t progress() noexcept { return waits() ? advance() : 0; }
  /// True when progress() has something to retry.
  [[nodiscard]] bool waits() const noexcept { return waiting_ != 0 || !ends_.empty(); }
  /// True if no message is being received and no LargeEnd waits.
  [[nodiscard]] bool idle() const noexcept { return peers_.empty() && ends_.empty(); }
  /// Called before a route is disconnected: posts nothing more on it and runs no handler for its messages.
  void leave(const btl::Endpoint& route) noexcept;
  /// Drops all messages of a failed or disconnected route.  Requires: every get on the route has ended.
  void route_gone(const btl::Endpoint& route) noexcept;

 private:
  static constexpr std::size_t kMostSpareBytes = std::size_t{8} << 20;  // of spares_

  enum class State : std::uint8_t { waiting, getting, arrived };
  struct Incoming;
  /// Memory of the library.
  struct Block {
    std::unique_ptr<std::byte[]> memory;
    std::size_t size = 0;
  };
  struct Peer {
    std::deque<std::unique_ptr<Incoming>> messages;  // in the order of the offers
    bool leaving = false;                            // leave() was called
  };
  struct End {
    btl::Endpoint* to;
    wire::LargeEnd end;
  };

  std::size_t advance() noexcept;
  /// Starts the waiting messages of a route in order; false: one has to wait for memory or for the transport.
  bool start(btl::Endpoint& route) noexcept;
  bool take_memory(Incoming& message) noexcept;
  [[nodiscard]] bool still_exists(btl::Endpoint& route, const Incoming& message) const noexcept;
  /// Returns a spare or new block; its memory is null if the allocation failed.  Spares save the page faults of new
  /// memory.
  Block take_block(std::size_t size) noexcept;
  void give_back(Block block) noexcept;
  void forget_oldest_spare() noexcept;
  void mark_arrived(Incoming& message, const Error& why) noexcept;
  void deliver(btl::Endpoint& route) noexcept;
  void drop(Incoming& message) noexcept;
  void send_end(btl::Endpoint& to, const wire::LargeEnd& end) noexcept;
  [[nodiscard]] static bool send_now(const End& end) noexcept;

  const btl::HandlerTable& handlers_;
  const std::uint64_t limit_;
  bool& retry_;
  std::uint64_t held_ = 0;                          // bytes of library memory that messages hold, without spares_
  std::deque<Block> spares_;                        // free blocks, oldest first; freed before limit_ is exceeded
  std::size_t spare_bytes_ = 0;                     // at most kMostSpareBytes
  std::size_t waiting_ = 0;                         // messages in State::waiting
  const Incoming* first_without_memory_ = nullptr;  // waits for library memory; no other message gets any before it
  std::unordered_map<btl::Endpoint*, Peer> peers_;  // routes with a message that is not handled yet
  std::unordered_map<Tag, BufferSource> sources_;
  std::deque<End> ends_;  // LargeEnds that the transport did not take, oldest first
};

}  // namespace opal::am
