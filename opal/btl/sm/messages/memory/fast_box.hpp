// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/messages/memory/fast_box.hpp — a ring of records in one direction, as views of its two sides over shared
// bytes.  The views borrow the bytes.  The writer copies the message behind the header's place and publishes the header
// by one release store.  It reads nothing that the reader writes until the ring seems full, so a message of up to 56
// bytes moves one cache line.
//
// A header word that is not zero is a record (wire.hpp).  So the place of the next header must be zero before a record
// that ends there is published.  The reader clears old headers before it returns their lines, some records at a time.
// The writer remembers which lines carried only payload, and clears such a line when a header follows there.  So only
// the writer writes lines of payload, and a long record costs no more to read than a plain copy.
// The reader checks all values that it reads.
// Threads: one writer, one reader.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "opal/btl/sm/messages/memory/wire.hpp"
#include "opal/btl/tag.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/copy.hpp"

namespace opal::btl::sm {

/// The memory accesses of both sides.  tests/model/ has a model of them for the exhaustive test.
struct HostMemory {
  using Counter = std::atomic<std::uint32_t>;
  /// The word of a ring at `offset`, a multiple of 8.
  static std::atomic_ref<std::uint64_t> word(std::byte* ring, std::uint32_t offset) noexcept {
    return std::atomic_ref<std::uint64_t>{*reinterpret_cast<std::uint64_t*>(ring + offset)};
  }
  static void copy(std::byte* to, ByteSpan bytes) noexcept { copy_to(to, bytes); }
};

/// Bytes that a message of `size` takes in a ring.
constexpr std::uint32_t record_bytes(std::size_t size) noexcept {
  return static_cast<std::uint32_t>(align_up(sizeof(wire::RecordHeader) + size, kCacheLine));
}

template <class Memory>
class BasicBoxWriter {
 public:
  using Counter = typename Memory::Counter;

  /// Off: every push() returns false.
  BasicBoxWriter() noexcept = default;

  /// Requires: `ring` is zero and aligned to a cache line; its size is a power of two of at least 1 KiB.
  /// `released`: the reader's counter.  push() refuses messages of more than `longest` bytes, and records of more than
  /// a quarter of the ring.
  BasicBoxWriter(MutableBytes ring, const Counter& released, std::size_t longest = SIZE_MAX) noexcept
      : ring_(ring.data()),
        capacity_(static_cast<std::uint32_t>(ring.size())),
        limit_when_on_(
            static_cast<std::uint32_t>(std::min<std::size_t>(longest, capacity_ / 4 - sizeof(wire::RecordHeader)) + 1)),
        limit_(limit_when_on_),
        written_(released.load(std::memory_order_acquire)),
        released_(&released),
        unclean_(capacity_ / kCacheLine / 64 + 1) {
    start_ = written_;
  }

  /// Appends a message.  False: the box is off or suspended, the message is too large, or there is no room now.
  [[nodiscard, gnu::always_inline]] bool push(Tag tag, std::uint16_t seq, ByteSpan header, ByteSpan payload) noexcept {
    const std::size_t size = header.size() + payload.size();
    if (size >= limit_) return false;
    const std::uint32_t record = record_bytes(size);
    if (record > room_) [[unlikely]] {
      if (!make_room(record)) return false;
    }
    const std::uint32_t at = (written_ - start_) & (capacity_ - 1);
    std::byte* body = ring_ + at + sizeof(wire::RecordHeader);
    if (size <= kInFirstLine) [[likely]] {
      Memory::copy(body, header);
      Memory::copy(body + header.size(), payload);
    } else {
      copy_last_lines_first(body, header, payload);
      note_unclean(at / kCacheLine + 1, record / kCacheLine - 1);
    }
    clean(at + record);
    publish(at, {static_cast<std::uint32_t>(size), tag, seq});
    written_ += record;
    room_ -= record;
    return true;
  }

  void turn_off() noexcept { limit_ = limit_when_on_ = 0; }
  /// Suspends the box: every push() returns false until resume().
  void rest() noexcept { limit_ = 0; }
  void resume() noexcept { limit_ = limit_when_on_; }
  /// True when push() refuses a message of `size` bytes only because there was no room when it last looked.
  [[nodiscard]] bool full_for(std::size_t size) const noexcept { return size < limit_ && record_bytes(size) > room_; }
  /// True when push() takes a message of `size` bytes as soon as there is room.
  [[nodiscard]] bool takes(std::size_t size) const noexcept { return size < limit_; }
  /// The value of the reader's counter from which on at most half of the ring is in use.
  [[nodiscard]] std::uint32_t half_empty_mark() const noexcept { return written_ - capacity_ / 2; }
  /// True when the reader has returned all bytes; exact after BasicBoxReader::finish().
  [[nodiscard]] bool all_read() const noexcept { return released_->load(std::memory_order_acquire) == written_; }
  [[nodiscard]] bool on() const noexcept { return limit_when_on_ != 0; }
  /// True when the reader's counter had an invalid value; the box is off then.
  [[nodiscard]] bool broken() const noexcept { return broken_; }

 private:
  static constexpr std::size_t kInFirstLine = kCacheLine - sizeof(wire::RecordHeader);

  /// Writes the record's first line last, together with the header, since the reader may be polling that line.  Written
  /// first, the line would move to the reader before the header is in it, and move twice.
  static void copy_last_lines_first(std::byte* body, ByteSpan header, ByteSpan payload) noexcept {
    const std::size_t beside = std::min(kInFirstLine - std::min(header.size(), kInFirstLine), payload.size());
    Memory::copy(body + header.size() + beside, payload.subspan(beside));
    Memory::copy(body, header);
    Memory::copy(body + header.size(), payload.first(beside));
  }

  /// Marks `count` lines from `first` on as lines whose first word is payload.
  void note_unclean(std::uint32_t first, std::uint32_t count) noexcept {
    while (count != 0) {
      const std::uint32_t here = std::min(count, 64 - first % 64);
      unclean_[first / 64] |= ~std::uint64_t{0} >> (64 - here) << first % 64;
      first += here;
      count -= here;
    }
  }
  /// Zeroes the place of the next header, at offset `at` modulo the capacity, if the line carried payload.  The line is
  /// free, or it is the first one of the oldest record that the reader has not returned, and then it is not marked.
  void clean(std::uint32_t at) noexcept {
    const std::uint32_t line = (at & (capacity_ - 1)) / kCacheLine;
    std::uint64_t& lines = unclean_[line / 64];
    const std::uint64_t bit = std::uint64_t{1} << line % 64;
    if ((lines & bit) == 0) return;
    lines &= ~bit;
    Memory::word(ring_, at & (capacity_ - 1)).store(0, std::memory_order_relaxed);
  }

  void publish(std::uint32_t at, wire::RecordHeader header) noexcept {
    Memory::word(ring_, at).store(std::bit_cast<std::uint64_t>(header), std::memory_order_release);
  }

  /// Reads the reader's counter and sets room_.  Skips to the start of the ring if the record does not fit at the end.
  /// False: no room for `record` bytes, or the counter is invalid.
  [[gnu::noinline]] bool make_room(std::uint32_t record) noexcept {
    const std::uint32_t used = written_ - released_->load(std::memory_order_acquire);
    if (used > capacity_ || used % kCacheLine != 0) {
      broken_ = true;
      turn_off();
      return false;
    }
    std::uint32_t free = capacity_ - used;
    std::uint32_t to_end = capacity_ - ((written_ - start_) & (capacity_ - 1));
    if (record > to_end) {
      if (free < to_end + record) return false;
      clean(capacity_);
      publish(capacity_ - to_end, {0, wire::kSkipTag, 0});
      written_ += to_end;
      free -= to_end;
      to_end = capacity_;
    }
    if (free < record) return false;
    room_ = std::min(free, to_end);
    return true;
  }

  std::byte* ring_ = nullptr;
  std::uint32_t capacity_ = 0;
  std::uint32_t limit_when_on_ = 0;  // 0 = off
  std::uint32_t limit_ = 0;          // messages must be shorter; 0 = off, or suspended
  std::uint32_t written_ = 0;        // bytes, modulo 2^32, as the reader's counter
  std::uint32_t start_ = 0;          // value of written_ at offset 0 of the ring
  std::uint32_t room_ = 0;           // bytes that can be written at written_ without a look at the reader's counter
  const Counter* released_ = nullptr;
  std::vector<std::uint64_t> unclean_;  // a bit per line: its first word may be payload
  bool broken_ = false;
};
using BoxWriter = BasicBoxWriter<HostMemory>;

/// A record, checked by the reader.
struct BoxRecord {
  Tag tag;
  std::uint16_t seq;
  ByteSpan data;  ///< in the ring, valid until pop(); the writer, if broken, can still change it
};

template <class Memory>
class BasicBoxReader {
 public:
  using Counter = typename Memory::Counter;
  enum class Look : std::uint8_t { nothing, record, garbage };

  BasicBoxReader() noexcept = default;
  BasicBoxReader(MutableBytes ring, Counter& released) noexcept
      : ring_(ring.data()),
        capacity_(static_cast<std::uint32_t>(ring.size())),
        consumed_(released.load(std::memory_order_relaxed)),
        give_back_at_(consumed_ + step()),
        released_(&released) {}

  /// True when look() finds a record or garbage.  One load of a line that no other process writes while the ring is
  /// idle.
  [[nodiscard]] bool ready() const noexcept { return Memory::word(ring_, at_).load(std::memory_order_relaxed) != 0; }

  /// Finds the oldest record and checks its fields against the ring.  `garbage`: the writer is broken.
  [[nodiscard]] Look look(BoxRecord& record) noexcept {
    for (;;) {
      const std::uint32_t at = at_;
      const std::uint64_t word = Memory::word(ring_, at).load(std::memory_order_acquire);
      if (word == 0) return Look::nothing;
      const wire::RecordHeader header = wire::record_header(word);
      if (header.tag == wire::kSkipTag) [[unlikely]] {
        if (at == 0) return Look::garbage;  // an honest writer never skips a whole ring
        consume(capacity_ - at);
        continue;
      }
      if (header.tag == 0 || header.size > capacity_ / 4 - sizeof header || record_bytes(header.size) > capacity_ - at)
          [[unlikely]] {
        return Look::garbage;
      }
      record = {header.tag, header.seq, ByteSpan{ring_ + at + sizeof header, header.size}};
      // Loads the next record, if it is published, while the caller handles this one.
      __builtin_prefetch(ring_ + ((at + record_bytes(header.size)) & (capacity_ - 1)));
      return Look::record;
    }
  }

  /// Bytes after which the reader returns lines, or a quarter of the ring if that is less.  A compromise: a single
  /// message rarely pays for it, and a writer that waits for room does not wait long.
  static constexpr std::uint32_t kGiveBack = 1024;

  /// Removes `record`.  Requires: the last look() returned it.
  void pop(const BoxRecord& record) noexcept { consume(record_bytes(record.data.size())); }

  /// Returns all bytes that have been read.  Call before close_parked(), so that the writer sees what was read.
  void finish() noexcept { give_back(); }
  [[nodiscard]] std::uint32_t capacity() const noexcept { return capacity_; }

 private:
  /// Bytes after which lines are returned.
  [[nodiscard]] std::uint32_t step() const noexcept { return std::min(capacity_ / 4, kGiveBack); }

  void consume(std::uint32_t bytes) noexcept {
    headers_[header_count_++] = at_;
    consumed_ += bytes;
    at_ = (at_ + bytes) & (capacity_ - 1);
    // A record has at least one line.  So headers_ cannot overflow: it has one entry per line of kGiveBack bytes.
    if (static_cast<std::int32_t>(consumed_ - give_back_at_) >= 0) [[unlikely]]
      give_back();
  }

  [[gnu::noinline]] void give_back() noexcept {
    for (; header_count_ != 0; --header_count_) {
      Memory::word(ring_, headers_[header_count_ - 1]).store(0, std::memory_order_relaxed);
    }
    give_back_at_ = consumed_ + step();
    released_->store(consumed_, std::memory_order_release);
  }

  std::byte* ring_ = nullptr;
  std::uint32_t at_ = 0;  // offset of the next record
  std::uint32_t capacity_ = 0;
  std::uint32_t consumed_ = 0;      // bytes read, modulo 2^32
  std::uint32_t give_back_at_ = 0;  // value of consumed_ at which lines are returned next
  Counter* released_ = nullptr;
  std::array<std::uint32_t, kGiveBack / kCacheLine> headers_{};  // offsets of records read and not returned
  std::uint32_t header_count_ = 0;
};
using BoxReader = BasicBoxReader<HostMemory>;

}  // namespace opal::btl::sm
