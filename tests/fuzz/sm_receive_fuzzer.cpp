// SPDX-License-Identifier: Apache-2.0
// What a peer may have written into shared memory: the ring of a fast box, a segment with fragments and an offer, the
// slots of a FIFO, a hello.  Reading it never leaves the memory, never loops for ever, and never returns what was not
// checked.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "opal/btl/sm/connections/handshake.hpp"
#include "opal/btl/sm/messages/memory/fast_box.hpp"
#include "opal/btl/sm/messages/memory/fifo.hpp"
#include "opal/btl/sm/messages/memory/segment.hpp"
#include "tests/btl/sm/fifo_pop.hpp"

namespace {

using namespace opal;
using namespace opal::btl::sm;

void require(bool condition) {
  if (!condition) std::abort();
}

/// Reads a message byte by byte, so that a byte outside the memory would be noticed.
void touch(ByteSpan data) {
  std::byte sum{};
  for (const std::byte byte : data) sum ^= byte;
  asm volatile("" : : "r"(sum));
}

void read_box(ByteSpan input) {
  constexpr std::size_t kRing = 1024;
  struct alignas(kCacheLine) Line {
    std::byte bytes[kCacheLine];
  };
  std::vector<Line> ring(kRing / kCacheLine);  // on the heap: AddressSanitizer guards both ends
  std::memcpy(ring.data(), input.data(), std::min(input.size(), kRing));
  std::atomic<std::uint32_t> released{0};
  BoxReader reader{{reinterpret_cast<std::byte*>(ring.data()), kRing}, released};
  BoxRecord record{};
  // Every record takes a line and wipes it: once round, nothing can be left.
  for (std::size_t count = 0; reader.look(record) == BoxReader::Look::record; ++count) {
    require(count <= 2 * kRing / kCacheLine && record.tag != 0 && record.data.size() <= kRing / 4);
    touch(record.data);
    reader.pop(record);
  }
}

void read_segment(ByteSpan input) {
  static const PeerId from{1, 2};
  static const PeerId to{3, 4};
  static const auto out = *OutSegment::create(Config{}, from, to);
  static InSegment segment = *InSegment::attach(out->fd(), from, to);
  static const Mapping raw = *mpool::SharedPool::attach(out->fd());
  auto& header = *reinterpret_cast<wire::SegmentHeader*>(raw.data());
  std::uint64_t words[3] = {};
  std::memcpy(words, input.data(), std::min(input.size(), sizeof words));
  header.offer.store(words[0]);
  if (auto box = segment.offered_box()) {
    BoxRecord record{};
    if (box->look(record) == BoxReader::Look::record) touch(record.data);
  }
  const std::uint32_t line = 3 + static_cast<std::uint32_t>(words[0] >> 60);
  std::memcpy(raw.data() + std::size_t{line} * kCacheLine, &words[1], 2 * sizeof words[1]);
  for (const std::uint32_t where : {line, static_cast<std::uint32_t>(words[0]) & (wire::kMaxLines - 1)}) {
    const auto fragment = segment.fragment(where);
    if (!fragment) continue;
    require(fragment->header.tag != 0 && fragment->header.size_class < wire::kFragmentClasses);
    require(fragment->data.size() <= raw.size() - std::size_t{where} * kCacheLine - sizeof(wire::FragmentHeader));
    touch(fragment->data.first(std::min<std::size_t>(fragment->data.size(), 64)));
    if (!fragment->data.empty()) touch(fragment->data.last(1));
  }
}

/// A segment of any size, with a fragment in its last line.
void attach_segment(ByteSpan input) {
  static const PeerId from{1, 2};
  static const PeerId to{3, 4};
  static const auto out = *OutSegment::create(Config{}, from, to);
  static const Mapping raw = *mpool::SharedPool::attach(out->fd());
  std::uint32_t words[2] = {};
  std::memcpy(words, input.data(), std::min(input.size(), sizeof words));
  const std::size_t size = words[0] % (16 * 4096);
  const Fd file{::memfd_create("segment", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(size)) != 0) return;
  (void)!::pwrite(file.get(), raw.data(), std::min(size, sizeof(wire::SegmentHeader)), 0);
  const wire::FragmentHeader header{words[1], 1, 0, 0, 0};
  const std::uint32_t line = static_cast<std::uint32_t>(size / kCacheLine) - (size % kCacheLine == 0 ? 1 : 0);
  if (size > sizeof(wire::SegmentHeader)) {
    const std::size_t room = size - std::size_t{line} * kCacheLine;
    (void)!::pwrite(file.get(), &header, std::min(room, sizeof header), off_t{line} * off_t{kCacheLine});
  }
  (void)::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  const auto segment = InSegment::attach(file.get(), from, to);
  if (!segment) return;
  const auto fragment = segment->fragment(line);
  if (!fragment) return;
  require(fragment->data.size() <= size - std::size_t{line} * kCacheLine);
  touch(fragment->data);
}

void read_fifo(ByteSpan input) {
  std::vector<std::atomic<std::uint64_t>> slots(16);
  std::atomic<std::uint64_t> tail{0};
  FifoConsumer consumer{slots, tail};
  consumer.reset();
  for (std::size_t i = 0; i < slots.size() && (i + 1) * 8 <= input.size(); ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, input.data() + i * 8, sizeof word);
    if (i == 15) {
      tail.store(word);
    } else {
      slots[i].store(word);
    }
  }
  FifoProducer producer{slots, tail};
  for (int i = 0; i < 20; ++i) (void)producer.push({1, 1});  // ends, whatever it finds
  std::size_t popped = 0;
  while (const auto item = pop(consumer)) {
    require(item->peer <= wire::kMaxPeers && item->line < wire::kMaxLines);
    require(++popped <= 2 * slots.size());
  }
  // Nonsense that lies ahead of the consumer is met and wiped when it gets there.
  for (std::size_t i = 0; i < 4 * slots.size(); ++i) {
    consumer.heal();
    (void)producer.push({1, 1});
    while (pop(consumer)) {
    }
  }
  consumer.heal();
  for (std::uint32_t i = 0; i < 40; ++i) {  // whole again
    require(producer.push({2, i}));
    const auto item = pop(consumer);
    require(item && item->peer == 2 && item->line == i);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const ByteSpan input = std::as_bytes(std::span{data, size}).subspan(1);
  switch (data[0] % 5) {
    case 0: read_box(input); break;
    case 1: read_segment(input); break;
    case 2: read_fifo(input); break;
    case 3: attach_segment(input); break;
    default: (void)Address::decode(input); break;
  }
  return 0;
}
