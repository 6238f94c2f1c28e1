// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/messages/memory/segment.hpp — the memory of one direction between two processes.
// OutSegment is the sender's side: it owns the memory, fragments and the ring of its fast box.  InSegment is the
// receiver's side: a mapping, and the counters by which it returns credit.
// Only these two processes map a segment, so a broken peer damages only its own connection.  The memory exists as long
// as one of them maps it, also after the OutSegment has ended, so what was sent before a disconnect or a failure can
// still be received.  An idle segment commits one page.  A `line` is an offset in the segment in cache lines.
// Threads: as the module; fragments(), offer_box(), answer_to_offer() and box() also under the endpoint's send lock.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "opal/btl/peer_id.hpp"
#include "opal/btl/sm/config.hpp"
#include "opal/btl/sm/messages/memory/fast_box.hpp"
#include "opal/btl/sm/messages/memory/fragment_pool.hpp"
#include "opal/btl/sm/messages/memory/wire.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/mapping.hpp"
#include "opal/mpool/shared_pool.hpp"

namespace opal::btl::sm {

class OPAL_EXPORT OutSegment {
 public:
  /// Errors: those of mpool::SharedPool, internal.
  static Result<std::unique_ptr<OutSegment>> create(const Config& config, const PeerId& from, const PeerId& to);
  OutSegment(const OutSegment&) = delete;
  OutSegment& operator=(const OutSegment&) = delete;

  [[nodiscard]] int fd() const noexcept { return memory_.fd(); }
  [[nodiscard]] FragmentPool& fragments() noexcept { return fragments_; }
  /// Allocates memory in the segment, at a cache line, until the segment ends; the peer finds it by InSegment::part().
  /// Errors: those of mpool::SharedPool::allocate.
  Result<mpool::SharedBlock> allocate(std::size_t size) noexcept { return memory_.allocate(size, kCacheLine); }

  /// Clears the ring and offers it as a fast box.  The first call allocates `size` bytes, a power of two of 1 KiB to
  /// 1 MiB; later calls use the same ring.  Requires: no offer is open and no writer is in use.  False: no memory.
  bool offer_box(std::uint32_t size) noexcept;
  /// Whether the last offer was accepted; none: no answer yet.  Requires: offer_box() returned true once.
  [[nodiscard]] std::optional<bool> answer_to_offer() const noexcept;
  /// The writer for an accepted offer, for messages of up to `longest` bytes.  It points into the segment.
  [[nodiscard]] BoxWriter box(std::size_t longest) const noexcept {
    return BoxWriter{ring_, header_->box_released, longest};
  }
  /// The counter values at which the receiver wakes this sender from its sleep; credit_wait.hpp.
  [[nodiscard]] auto& credits_wanted() const noexcept { return header_->credits_wanted; }
  /// The receiver's counters of returned credit, modulo 2^32: bytes of the fast box, fragments of each size.
  [[nodiscard]] CreditCounters returned_credits() const noexcept { return wire::returned_credits(*header_); }
  /// Whether the receiver polls the fast box, box_state.hpp: kBoxPolled before the first one is accepted, kBoxClosed
  /// after one was closed.
  [[nodiscard]] std::atomic<std::uint32_t>& box_state() const noexcept { return header_->box_state; }

 private:
  OutSegment(const Config& config, mpool::SharedPool memory, wire::SegmentHeader& header);
  mpool::SharedPool memory_;
  wire::SegmentHeader* header_;
  FragmentPool fragments_;
  MutableBytes ring_;
  std::uint64_t ring_offset_ = 0;  // bytes
  std::uint16_t offers_ = 0;       // number of the last offer; 0: none yet
};

/// A received fragment: `header` is a checked copy; `data` lies in the segment, where the sender can still change it,
/// and is valid until release().
struct ReceivedFragment {
  wire::FragmentHeader header;
  ByteSpan data;
};

class OPAL_EXPORT InSegment {
 public:
  /// Not attached: may only be assigned to or destroyed.
  InSegment() noexcept = default;
  /// Maps a segment from `from` to `to`; `fd` stays the caller's.  Errors: protocol, version_mismatch, no_memory, os.
  static Result<InSegment> attach(int fd, const PeerId& from, const PeerId& to);

  /// The fragment at `line`.  Errors: protocol.
  [[nodiscard]] Result<ReceivedFragment> fragment(std::uint32_t line) const noexcept;
  /// Returns the oldest fragment of a size class to the sender: fragments of one size class go back in the order of
  /// sending.
  void release(std::uint32_t size_class) noexcept {
    header_->fragments_released[size_class].store(++released_[size_class], std::memory_order_release);
  }

  /// `size` bytes of the segment at `line`; empty when they are not inside it, after the header.
  [[nodiscard]] MutableBytes part(std::uint32_t line, std::uint64_t size) const noexcept {
    const std::uint64_t offset = std::uint64_t{line} * kCacheLine;
    if (offset < sizeof(wire::SegmentHeader) || offset > map_.size() || size > map_.size() - offset) return {};
    return map_.bytes().subspan(offset, size);
  }

  /// The counter values at which the sleeping sender is to be woken; credit_wait.hpp.
  [[nodiscard]] const auto& credits_wanted() const noexcept { return header_->credits_wanted; }
  /// The counters that release() and the BoxReader advance.
  [[nodiscard]] CreditCounters returned_credits() const noexcept { return wire::returned_credits(*header_); }

  /// Reads the sender's last offer, which the next reply_to_offer() is about.  Errors: protocol.
  [[nodiscard]] Result<BoxReader> offered_box() noexcept;
  [[nodiscard]] std::atomic<std::uint32_t>& box_state() const noexcept { return header_->box_state; }
  /// Accepts or refuses the offer that offered_box() read last; accepting sets the box state to kBoxPolled first.
  void reply_to_offer(bool accepted) noexcept;

 private:
  InSegment(Mapping map, wire::SegmentHeader& header) noexcept : map_(std::move(map)), header_(&header) {}
  Mapping map_;
  wire::SegmentHeader* header_ = nullptr;
  std::uint32_t released_[wire::kFragmentClasses] = {};  // fragments returned, by size class, modulo 2^32
  std::uint16_t offer_ = 0;                              // number of the offer read last
};

}  // namespace opal::btl::sm
