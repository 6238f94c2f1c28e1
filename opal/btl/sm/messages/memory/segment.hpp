// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/messages/memory/segment.hpp — the memory of one direction between two processes.
// OutSegment is the sender's side: it owns the memory, fragments and the ring of its fast box.  InSegment is the
// receiver's side: a mapping, and the counters by which it returns credit.
// Only these two processes map a segment, so a broken peer damages only its own connection.  It lives as long as one of
// them maps it, so what was sent before a disconnect or a death can still be received.  An idle segment costs one page.
#pragma once
#include <cstdint>
#include <memory>

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
  /// Errors: those of mpool::SharedPool.
  static Result<std::unique_ptr<OutSegment>> create(const Config& config, const PeerId& from, const PeerId& to);
  OutSegment(const OutSegment&) = delete;
  OutSegment& operator=(const OutSegment&) = delete;

  [[nodiscard]] int fd() const noexcept { return memory_.fd(); }
  [[nodiscard]] FragmentPool& fragments() noexcept { return fragments_; }
  /// Room for something that lives as long as the segment.  Errors: those of mpool::SharedPool::allocate.
  Result<mpool::SharedBlock> allocate(std::size_t size) noexcept { return memory_.allocate(size, kCacheLine); }

  /// Offers an empty ring of `size` bytes (made at the first call); false when there is no memory for it.
  bool offer_box(std::uint32_t size) noexcept;
  enum class Answer : std::uint8_t { none, accepted, refused };
  /// What the receiver says to the last offer.
  [[nodiscard]] Answer answer() const noexcept;
  /// The writer for an accepted offer; messages of up to `longest` bytes.
  [[nodiscard]] BoxWriter box(std::size_t longest) const noexcept {
    return BoxWriter{ring_, header_->box_released, longest};
  }
  /// What we wait for; see credit_wait.hpp.
  [[nodiscard]] auto& credits_wanted() const noexcept { return header_->credits_wanted; }
  /// What the receiver has given back: bytes of the box, fragments of each size.
  [[nodiscard]] CreditCounters returned_credits() const noexcept { return wire::returned_credits(*header_); }
  /// Whether the receiver looks at the box; polled while there is none.
  [[nodiscard]] std::atomic<std::uint32_t>& box_state() const noexcept { return header_->box_state; }

 private:
  OutSegment(const Config& config, mpool::SharedPool memory, wire::SegmentHeader& header);
  mpool::SharedPool memory_;
  wire::SegmentHeader* header_;
  FragmentPool fragments_;
  MutableBytes ring_;
  std::uint64_t ring_offset_ = 0;
  std::uint16_t offers_ = 0;
};

/// A fragment as its receiver found it; checked against the segment.
struct ReceivedFragment {
  wire::FragmentHeader header;
  ByteSpan data;
};

class OPAL_EXPORT InSegment {
 public:
  InSegment() noexcept = default;
  /// Maps a segment from `from` to `to`.  Errors: protocol, version_mismatch, no_memory, os.
  static Result<InSegment> attach(int fd, const PeerId& from, const PeerId& to);

  /// The fragment at `line`.  Errors: protocol.
  [[nodiscard]] Result<ReceivedFragment> fragment(std::uint32_t line) const noexcept;
  /// Gives the oldest fragment of a class back to the sender.
  void release(std::uint32_t size_class) noexcept {
    header_->fragments_released[size_class].store(++released_[size_class], std::memory_order_release);
  }

  /// Bytes of the segment from `line` on; empty when they do not lie in it.
  [[nodiscard]] MutableBytes part(std::uint32_t line, std::uint64_t size) const noexcept {
    const std::uint64_t offset = std::uint64_t{line} * kCacheLine;
    if (offset < sizeof(wire::SegmentHeader) || offset > map_.size() || size > map_.size() - offset) return {};
    return map_.bytes().subspan(offset, size);
  }

  /// What the sender waits for; see credit_wait.hpp.
  [[nodiscard]] const auto& credits_wanted() const noexcept { return header_->credits_wanted; }
  /// What we have given back.
  [[nodiscard]] CreditCounters returned_credits() const noexcept { return wire::returned_credits(*header_); }

  /// The ring that the sender offers.  Errors: protocol.
  [[nodiscard]] Result<BoxReader> offered_box() noexcept;
  [[nodiscard]] std::atomic<std::uint32_t>& box_state() const noexcept { return header_->box_state; }
  /// Answers the offer that offered_box() has looked at last.
  void answer(bool accepted) noexcept;

 private:
  InSegment(Mapping map, wire::SegmentHeader& header) noexcept : map_(std::move(map)), header_(&header) {}
  Mapping map_;
  wire::SegmentHeader* header_ = nullptr;
  std::uint32_t released_[wire::kFragmentClasses] = {};
  std::uint16_t offer_ = 0;
};

}  // namespace opal::btl::sm
