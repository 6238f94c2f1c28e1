// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/endpoint.hpp — one local peer: the link to it, the fast boxes in both directions, and the sequence
// numbers that join box and FIFO into one ordered stream per direction. The first lines hold what every send touches.
// Owned by its Module, which alone uses it.  Threads: as the module; send_beside() touches the sending half alone.
#pragma once
#include <sys/eventfd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "opal/btl/endpoint.hpp"
#include "opal/btl/sm/messages/box_state.hpp"
#include "opal/btl/sm/messages/fast_box.hpp"
#include "opal/btl/sm/connections/link.hpp"
#include "opal/btl/sm/helped/pull.hpp"
#include "opal/core/sync/asymmetric_fence.hpp"
#include "opal/core/clock.hpp"

namespace opal::btl::sm {

/// Where a post has found no room; any of them would help.
struct Lacking {
  bool box = false;
  bool fragments = false;
  bool fifo = false;
  [[nodiscard]] bool anything() const noexcept { return box || fragments || fifo; }
};

class Endpoint final : public btl::Endpoint {
 public:
  Endpoint(btl::Module& module, std::unique_ptr<Link> link)
      : btl::Endpoint(module, link->peer),
        link_(std::move(link)),
        sleeping_(&link_->inbox.sleeping()),
        box_state_(&link_->out->box_state()),
        fences_paid_(link_->fences_paid) {}

  [[nodiscard]] bool one_sided() const noexcept override { return link_->copy.usable(); }
  [[nodiscard]] bool asleep() const noexcept { return sleeping_->load(std::memory_order_relaxed) != 0; }
  [[nodiscard]] std::string describe() const override;

 private:
  friend class Module;

  /// Sends through the fast box.  False: off, too large, full, or taken back; nothing has happened.
  [[nodiscard, gnu::always_inline]] bool push_to_box(Tag tag, ByteSpan header, ByteSpan payload) noexcept {
    if (!box_out_.push(tag, next_seq_, header, payload)) {
      if (!box_out_.full_for(header.size() + payload.size()) || !push_when_room(tag, header, payload)) return false;
    }
    sender_fence(fences_paid_);
    if (box_state_->load(std::memory_order_relaxed) != wire::kBoxPolled) [[unlikely]] {
      if (!announce_box()) return false;
    }
    ++next_seq_;
    ring_if_asleep();
    return true;
  }

  /// The box is full.  A receiver that is emptying it has room within microseconds, and that is much cheaper for both
  /// than a stream that changes between box and FIFO; one that does something else is not asked again for a while.
  /// How long to look depends on how that went before.
  [[gnu::noinline]] bool push_when_room(Tag tag, ByteSpan header, ByteSpan payload) noexcept {
    for (std::uint32_t look = 0; look < looks_for_room_; ++look) {
      cpu_relax();
      if (box_out_.push(tag, next_seq_, header, payload)) {
        looks_for_room_ = std::min(2 * looks_for_room_, kMostLooks);
        return true;
      }
      if (!box_out_.on()) return false;
    }
    looks_for_room_ = std::max(looks_for_room_ / 4, kLeastLooks);
    box_out_.rest();
    box_rest_ = kRestOfBox;
    return false;
  }

  /// A message goes by FIFO: a box that rests may be due again.
  void count_rest() noexcept {
    if (box_rest_ != 0 && --box_rest_ == 0) box_out_.resume();
  }
  /// There is no room in the FIFO either: whichever has room first is taken.
  void end_rest() noexcept {
    if (box_rest_ == 0) return;
    box_rest_ = 0;
    box_out_.resume();
  }

  /// The receiver does not look at the box in which a record has just been published.  False: nor has it seen it.
  [[gnu::noinline]] bool announce_box() noexcept {
    switch (notify(*box_state_)) {
      case Notice::none: break;
      case Notice::ring:
        link_->inbox.ring(link_->index_there);
        sender_fence(fences_paid_);  // of the notification, before a look whether the peer sleeps
        break;
      case Notice::taken_back: box_out_.turn_off(); return box_out_.all_read();
    }
    return true;
  }

  /// After a message has been published: rings the peer's doorbell if it sleeps.
  void wake() noexcept {
    sender_fence(fences_paid_);
    ring_if_asleep();
  }

  /// Once per sleep; the fence has been passed.
  void ring_if_asleep() noexcept {
    const std::uint32_t sleep = sleeping_->load(std::memory_order_relaxed);
    if (sleep != 0 && sleep != notified_sleep_.load(std::memory_order_relaxed)) [[unlikely]] {
      notified_sleep_.store(sleep, std::memory_order_relaxed);
      (void)::eventfd_write(link_->doorbell.get(), 1);
    }
  }

  static constexpr std::uint32_t kLeastLooks = 64;  // of some 20 to 60 ns
  static constexpr std::uint32_t kMostLooks = 1024;
  static constexpr std::uint32_t kRestOfBox = 128;  // messages by FIFO until the box is tried again

  // Sending: guarded by the send lock, but for the segment, of which the box alone is.
  BoxWriter box_out_;
  std::uint16_t next_seq_ = 0;
  bool offer_open_ = false;
  std::unique_ptr<Link> link_;
  const std::atomic<std::uint32_t>* sleeping_;
  std::atomic<std::uint32_t>* box_state_;
  bool fences_paid_;
  std::atomic<std::uint32_t> notified_sleep_{0};  // the peer's last sleep for which we rang; twice does no harm
  std::uint32_t looks_for_room_ = kLeastLooks;
  std::uint32_t box_rest_ = 0;        // messages by FIFO until a full box is tried again
  std::uint32_t sends_till_box_ = 0;  // messages by FIFO until a box is offered (again)

  Lacking lacking_;  // of posts that were refused since arm()

  // Receiving: on other lines, since other threads may send meanwhile.
  alignas(kCacheLine) std::uint16_t expected_seq_ = 0;
  enum class BoxIn : std::uint8_t { none, polled, parked };
  [[nodiscard]] bool has_box_in() const noexcept { return box_kind_ != BoxIn::none; }
  BoxIn box_kind_ = BoxIn::none;  // our own record of box_state, which the peer can write
  bool blocked_ = false;          // the box's next record waits for a message of the FIFO
  bool waits_for_us_ = false;     // the peer sleeps until we make room
  BoxReader box_in_;
  std::uint32_t box_heard_ = 0;       // round of the last message
  std::uint32_t box_idle_limit_ = 0;  // idle rounds until the box is parked; grows when that was too early

  // Large gets, made when needed.
  std::unique_ptr<Pulls> pulls_;  // ours, in which the peer helps
  std::unique_ptr<Feed> feed_;    // the peer's, in which we help
  // For gets, for puts; of private memory, of memory that is mapped here; single ones, those of a stream.
  std::unique_ptr<WayChooser> choosers_[2][2][2];
  std::uint32_t get_round_ = 0;  // of the last get that a peer could help with

  // Beginning and ending.
  bool unannounced_ = false;     // on_accepted waits until the end of the peer's earlier life has been told
  bool leaving_ = false;         // the peer has ended the link; what it has sent is still being delivered
  bool told_ = false;            // on_failed has been called
  std::uint64_t last_item_ = 0;  // leaving: the position in our FIFO past which there is nothing from it
  Error why_{};
};

}  // namespace opal::btl::sm
