// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/messages/memory/inbox.hpp — the memory of one module that all its peers map: the FIFO that announces
// fragments, the sleep state, the notifications.  Inbox is the owner's side, PeerInbox the mapping of a peer's inbox.
// A broken peer can write anything here; the checks of fifo.hpp and the sequence numbers bound the damage.
#pragma once
#include <cstdint>
#include <utility>

#include "opal/btl/peer_id.hpp"
#include "opal/btl/sm/messages/memory/fifo.hpp"
#include "opal/btl/sm/messages/memory/wire.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/mapping.hpp"
#include "opal/mpool/shared_pool.hpp"

namespace opal::btl::sm {

class OPAL_EXPORT Inbox {
 public:
  /// An empty inbox.  Errors: those of mpool::SharedPool.
  static Result<Inbox> create(const PeerId& owner, std::uint32_t fifo_slots);

  [[nodiscard]] int fd() const noexcept { return pool_.fd(); }
  [[nodiscard]] FifoConsumer& fifo() noexcept { return fifo_; }
  [[nodiscard]] const FifoConsumer& fifo() const noexcept { return fifo_; }
  [[nodiscard]] std::atomic<std::uint32_t>& sleeping() noexcept { return header_->sleeping; }
  [[nodiscard]] std::atomic<std::uint64_t>& notifications() noexcept { return header_->notifications; }
  [[nodiscard]] bool is_notified() const noexcept {
    return header_->notifications.load(std::memory_order_relaxed) != 0;
  }

 private:
  Inbox(mpool::SharedPool pool, wire::InboxHeader& header, FifoConsumer fifo) noexcept
      : pool_(std::move(pool)), header_(&header), fifo_(fifo) {}
  mpool::SharedPool pool_;
  wire::InboxHeader* header_;
  FifoConsumer fifo_;
};

class OPAL_EXPORT PeerInbox {
 public:
  PeerInbox() noexcept = default;
  /// Maps the inbox of `owner`.  Errors: protocol (not an inbox, or of another process), version_mismatch, no_memory,
  /// os.
  static Result<PeerInbox> attach(int fd, const PeerId& owner);

  [[nodiscard]] FifoProducer& fifo() noexcept { return fifo_; }
  [[nodiscard]] const std::atomic<std::uint32_t>& sleeping() const noexcept { return header_->sleeping; }
  /// Makes the owner poll the parked fast box of this process.  `index`: MessageLink::index_there.  Senders whose index
  /// is equal modulo 32 share a bit.
  void notify_fast_box(std::uint32_t index) noexcept {
    header_->notifications.fetch_or(std::uint64_t{1} << index % 32, std::memory_order_release);
  }
  /// Makes the owner read which credits this process sleeps for, to wake it when they return.  `index`:
  /// MessageLink::index_there.
  void notify_credits_wanted(std::uint32_t index) noexcept {
    header_->notifications.fetch_or(std::uint64_t{1} << (32 + index % 32), std::memory_order_release);
  }

 private:
  PeerInbox(Mapping map, wire::InboxHeader& header, FifoProducer fifo) noexcept
      : map_(std::move(map)), header_(&header), fifo_(fifo) {}
  Mapping map_;
  wire::InboxHeader* header_ = nullptr;
  FifoProducer fifo_;
};

}  // namespace opal::btl::sm
