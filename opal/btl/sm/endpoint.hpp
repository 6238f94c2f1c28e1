// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/endpoint.hpp — one local peer: the link to it, the fast boxes in both directions, and the sequence
// numbers that join box and FIFO into one ordered stream per direction. The first lines hold what every send touches.
// Owned by its Module, which alone uses it.  Threads: as the module.
#pragma once
#include <sys/eventfd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "opal/btl/endpoint.hpp"
#include "opal/btl/sm/barrier.hpp"
#include "opal/btl/sm/fast_box.hpp"
#include "opal/btl/sm/link.hpp"

namespace opal::btl::sm {

class Endpoint final : public btl::Endpoint {
 public:
  Endpoint(btl::Module& module, std::unique_ptr<Link> link)
      : btl::Endpoint(module, link->peer), link_(std::move(link)), sleeping_(&link_->inbox.sleeping()) {}

  [[nodiscard]] bool one_sided() const noexcept override { return link_->copy.usable(); }
  [[nodiscard]] std::string describe() const override;

 private:
  friend class Module;

  /// Sends through the fast box.  False: off, too large, or full; nothing has happened.
  [[nodiscard]] bool push_to_box(Tag tag, ByteSpan header, ByteSpan payload) noexcept {
    if (!box_out_.push(tag, next_seq_, header, payload)) return false;
    ++next_seq_;
    wake();
    return true;
  }

  /// After a message has been published: rings the peer's doorbell if it sleeps, once per sleep.
  void wake() noexcept {
    sender_fence(link_->fences_paid);
    const std::uint32_t sleep = sleeping_->load(std::memory_order_relaxed);
    if (sleep != 0 && sleep != rung_) [[unlikely]] {
      rung_ = sleep;
      (void)::eventfd_write(link_->doorbell.get(), 1);
    }
  }

  // Sending.
  BoxWriter box_out_;
  std::uint16_t next_seq_ = 0;
  bool offer_open_ = false;
  std::unique_ptr<Link> link_;
  const std::atomic<std::uint32_t>* sleeping_;
  std::uint32_t rung_ = 0;            // the peer's last sleep for which we rang
  std::uint32_t sends_till_box_ = 0;  // messages by FIFO until a box is offered (again)

  // Receiving.
  std::uint16_t expected_seq_ = 0;
  bool has_box_in_ = false;
  bool blocked_ = false;  // the box's next record waits for a message of the FIFO
  BoxReader box_in_;

  // Ending.
  bool leaving_ = false;         // the peer has ended the link; what it has sent is still being delivered
  bool told_ = false;            // on_failed has been called
  std::uint64_t last_item_ = 0;  // leaving: the position in our FIFO past which there is nothing from it
  Error why_{};
};

}  // namespace opal::btl::sm
