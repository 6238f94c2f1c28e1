// SPDX-License-Identifier: Apache-2.0
// opal/am/messages/large_receives.hpp — the receiver's half of large messages: it takes memory, pulls the payload by a
// get, runs the handler, and tells the sender (docs/design/active-messages.md).
// Messages of one route are started and handled in the order of their offers, so memory is always given back.
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
  /// `limit`: most bytes that messages hold in memory of the library.
  /// Sets `retry` when something waits for progress().
  LargeReceives(const btl::HandlerTable& handlers, std::uint64_t limit, bool& retry) noexcept;
  LargeReceives(const LargeReceives&) = delete;
  LargeReceives& operator=(const LargeReceives&) = delete;
  ~LargeReceives();

  void set_source(Tag tag, const BufferSource& source) { sources_.insert_or_assign(tag, source); }
  void clear_source(Tag tag) noexcept { sources_.erase(tag); }

  /// The handler of wire::kLargeOffer.
  void on_offer(btl::Delivery& delivery) noexcept;
  /// Starts what waited for memory or for the transport, and sends ends that the transport did not take.
  std::size_t progress() noexcept { return waits() ? advance() : 0; }
  /// True when progress() has something to retry.
  [[nodiscard]] bool waits() const noexcept { return waiting_ != 0 || !ends_.empty(); }
  [[nodiscard]] bool idle() const noexcept { return peers_.empty() && ends_.empty(); }
  /// The route is about to be disconnected: nothing is posted on it and no handler runs any more.
  void leave(const btl::Endpoint& route) noexcept;
  /// The route has failed, or is disconnected; every get on it has ended.
  void route_gone(const btl::Endpoint& route) noexcept;

 private:
  static constexpr std::size_t kMostSpareBytes = std::size_t{8} << 20;

  enum class State : std::uint8_t { waiting, pulling, arrived };
  struct Incoming;
  /// Memory of the library.
  struct Block {
    std::unique_ptr<std::byte[]> memory;
    std::size_t size = 0;
  };
  struct Peer {
    std::deque<std::unique_ptr<Incoming>> messages;  // in the order of the offers
    bool leaving = false;
  };
  struct End {
    btl::Endpoint* to;
    wire::LargeEnd end;
  };

  std::size_t advance() noexcept;
  /// Starts the messages of a route; false: the first one has to wait.
  bool start(btl::Endpoint& route) noexcept;
  bool take_memory(Incoming& message) noexcept;
  [[nodiscard]] bool is_here(btl::Endpoint& route, const Incoming& message) const noexcept;
  /// Memory that is null if there is none.  Fresh memory costs a page fault for each page, so some is kept.
  Block take_block(std::size_t size) noexcept;
  void give_back(Block block) noexcept;
  void forget_oldest_spare() noexcept;
  void pulled(Incoming& message, const Error& why) noexcept;
  void deliver(btl::Endpoint& route) noexcept;
  void drop(Incoming& message) noexcept;
  void send_end(btl::Endpoint& to, const wire::LargeEnd& end) noexcept;
  [[nodiscard]] static bool send_now(const End& end) noexcept;

  const btl::HandlerTable& handlers_;
  const std::uint64_t limit_;
  bool& retry_;
  std::uint64_t held_ = 0;                          // bytes of memory of the library, without spares
  std::deque<Block> spares_;                        // oldest first; forgotten before the limit is exceeded
  std::size_t spare_bytes_ = 0;                     // at most kMostSpareBytes
  std::size_t waiting_ = 0;                         // messages that are not started
  const Incoming* hungry_ = nullptr;                // the first that waits for memory; no other one gets any before
  std::unordered_map<btl::Endpoint*, Peer> peers_;  // routes that have a message here
  std::unordered_map<Tag, BufferSource> sources_;
  std::deque<End> ends_;  // that the transport did not take
};

}  // namespace opal::am
