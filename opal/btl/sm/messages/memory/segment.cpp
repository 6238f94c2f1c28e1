// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/sm/messages/memory/segment.hpp"

#include <bit>
#include <cstring>
#include <new>

#include "opal/btl/sm/messages/memory/box_state.hpp"

namespace opal::btl::sm {

OutSegment::OutSegment(const Config& config, mpool::SharedPool memory, wire::SegmentHeader& header)
    : memory_(std::move(memory)),
      header_(&header),
      fragments_(memory_, header.fragments_released, {config.small_fragment.bytes, config.max_send.bytes},
                 config.segment_size.bytes) {}

Result<std::unique_ptr<OutSegment>> OutSegment::create(const Config& config, const PeerId& from, const PeerId& to) {
  mpool::SharedPool::Options options;
  options.chunk = 4096;  // an idle segment is one page
  // Beside the fragments: header, fast box, helped transfers, and what rounding to lines and pages loses.
  const std::size_t size = config.segment_size.bytes + config.fbox_size.bytes + kHelpedRingSize + 16384;
  OPAL_TRY_ASSIGN(mpool::SharedPool memory, mpool::SharedPool::create("opal-sm-segment", size, options));
  OPAL_TRY_ASSIGN(const mpool::SharedBlock block, memory.allocate(sizeof(wire::SegmentHeader), 4096));
  if (block.offset != 0)
    return Error{Errc::internal, 0, "sm segment: the first block is not at the start", block.offset};
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): placed in memory that the pool owns
  auto* header = new (block.address) wire::SegmentHeader{};
  header->version = wire::kLayoutVersion;
  header->from = from;
  header->to = to;
  header->magic = wire::kSegmentMagic;
  return std::unique_ptr<OutSegment>{new OutSegment{config, std::move(memory), *header}};
}

bool OutSegment::offer_box(std::uint32_t size) noexcept {
  if (ring_.empty()) {
    const auto block = memory_.allocate(size, kCacheLine);
    if (!block) return false;
    ring_ = {block->address, size};
    ring_offset_ = block->offset;
  }
  std::memset(ring_.data(), 0, ring_.size());  // also a record that was not read, since the fast box was closed
  if (++offers_ == 0) offers_ = 1;
  const wire::BoxOffer offer{static_cast<std::uint32_t>(ring_offset_ / kCacheLine), offers_,
                             static_cast<std::uint16_t>(std::countr_zero(ring_.size()))};
  header_->offer.store(std::bit_cast<std::uint64_t>(offer), std::memory_order_release);
  return true;
}

std::optional<bool> OutSegment::answer_to_offer() const noexcept {
  const std::uint32_t result = header_->answer.load(std::memory_order_acquire);
  if (result >> 1 != offers_) return std::nullopt;
  return (result & 1) != 0;
}

Result<InSegment> InSegment::attach(int fd, const PeerId& from, const PeerId& to) {
  OPAL_TRY_ASSIGN(Mapping map, mpool::SharedPool::attach(fd));
  if (map.size() < sizeof(wire::SegmentHeader) || map.size() > wire::kMaxSegmentSize) {
    return Error{Errc::protocol, 0, "sm segment: size", map.size()};
  }
  auto* header = reinterpret_cast<wire::SegmentHeader*>(map.data());
  if (header->magic != wire::kSegmentMagic) return Error{Errc::protocol, 0, "sm segment: not a segment", header->magic};
  if (header->version != wire::kLayoutVersion) {
    return Error{Errc::version_mismatch, 0, "sm segment: layout version", header->version};
  }
  if (header->from != from || header->to != to) return Error{Errc::protocol, 0, "sm segment: between others", 0};
  return InSegment{std::move(map), *header};
}

Result<ReceivedFragment> InSegment::fragment(std::uint32_t line) const noexcept {
  const std::uint64_t offset = std::uint64_t{line} * kCacheLine;
  if (offset < sizeof(wire::SegmentHeader) || offset >= map_.size()) {
    return Error{Errc::protocol, 0, "sm fragment: outside its segment", offset};
  }
  std::byte* const place = map_.data() + offset;  // a multiple of 64, so at least one line is inside
  const auto word = [&](std::size_t index) {
    return std::atomic_ref<std::uint64_t>{reinterpret_cast<std::uint64_t*>(place)[index]}.load(
        std::memory_order_relaxed);
  };
  const std::uint64_t words[2] = {word(0), word(1)};  // each once: the peer may change them at any time
  ReceivedFragment fragment{};
  std::memcpy(&fragment.header, words, sizeof words);
  const wire::FragmentHeader& header = fragment.header;
  if (header.size > map_.size() - offset - sizeof header) {
    return Error{Errc::protocol, 0, "sm fragment: longer than its segment", header.size};
  }
  if (header.size_class >= wire::kFragmentClasses) {
    return Error{Errc::protocol, 0, "sm fragment: size class", header.size_class};
  }
  if (header.tag == 0 || header.tag == wire::kSkipTag) return Error{Errc::protocol, 0, "sm fragment: tag", header.tag};
  fragment.data = {place + sizeof header, header.size};
  return fragment;
}

Result<BoxReader> InSegment::offered_box() noexcept {
  const auto offer = std::bit_cast<wire::BoxOffer>(header_->offer.load(std::memory_order_acquire));
  const std::uint64_t offset = std::uint64_t{offer.line} * kCacheLine;
  if (offer.number == 0 || offer.log_size < 10 || offer.log_size > 20) {
    return Error{Errc::protocol, 0, "sm fast box: offer", offer.log_size};
  }
  const std::uint64_t size = std::uint64_t{1} << offer.log_size;
  if (offset < sizeof(wire::SegmentHeader) || offset > map_.size() || size > map_.size() - offset) {
    return Error{Errc::protocol, 0, "sm fast box: outside its segment", offset};
  }
  offer_ = offer.number;
  return BoxReader{map_.bytes().subspan(offset, size), header_->box_released};
}

void InSegment::reply_to_offer(bool accepted) noexcept {
  if (accepted) unpark(header_->box_state);
  header_->answer.store(std::uint32_t{offer_} << 1 | (accepted ? 1 : 0), std::memory_order_release);
}

}  // namespace opal::btl::sm
