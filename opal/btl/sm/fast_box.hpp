// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/fast_box.hpp — a one-directional ring of records, as views of its two sides over bytes that somebody else
// owns.  Sending is: copy the message behind the header's place, publish the header by one release store.  Nothing is
// read from the other side unless the ring seems full, so a message of up to 56 bytes moves one cache line.
//
// A header word that is not zero is a record (wire.hpp).  That is only true if stale bytes never lie where a header
// may come, so the reader wipes the first word of every line it has consumed before it gives the lines back; it does
// so for a quarter of the ring at a time, off the path of the single message.
// Threads: one writer, one reader.  The reader trusts nothing that it reads.
#pragma once
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

#include "opal/btl/sm/copy.hpp"
#include "opal/btl/sm/wire.hpp"
#include "opal/btl/tag.hpp"
#include "opal/core/bytes.hpp"

namespace opal::btl::sm {

/// How the two sides touch memory: in earnest.  tests/model/ has the other one, for the exhaustive model.
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

  /// Off: every push answers false.
  BasicBoxWriter() noexcept = default;

  /// `ring` is zero, aligned to a cache line, a power of two of at least 1 KiB; `released` is the reader's counter.
  BasicBoxWriter(MutableBytes ring, const Counter& released) noexcept
      : ring_(ring.data()),
        capacity_(static_cast<std::uint32_t>(ring.size())),
        limit_(capacity_ / 4 - sizeof(wire::RecordHeader) + 1),
        written_(released.load(std::memory_order_acquire)),
        released_(&released) {
    start_ = written_;
  }

  /// Appends a message.  False: off, too large, or no room now.
  [[nodiscard]] bool push(Tag tag, std::uint16_t seq, ByteSpan header, ByteSpan payload) noexcept {
    const std::size_t size = header.size() + payload.size();
    if (size >= limit_) return false;
    const std::uint32_t record = record_bytes(size);
    if (record > room_) [[unlikely]] {
      if (!make_room(record)) return false;
    }
    const std::uint32_t at = (written_ - start_) & (capacity_ - 1);
    std::byte* body = ring_ + at + sizeof(wire::RecordHeader);
    Memory::copy(body, header);
    Memory::copy(body + header.size(), payload);
    publish(at, {static_cast<std::uint32_t>(size), tag, seq});
    written_ += record;
    room_ -= record;
    return true;
  }

  void turn_off() noexcept { limit_ = 0; }
  /// Whether the reader has given back everything; exact once it has finished.
  [[nodiscard]] bool all_read() const noexcept { return released_->load(std::memory_order_acquire) == written_; }
  [[nodiscard]] bool on() const noexcept { return limit_ != 0; }
  /// True when the reader's counter made no sense; the box has turned itself off.
  [[nodiscard]] bool broken() const noexcept { return broken_; }

 private:
  void publish(std::uint32_t at, wire::RecordHeader header) noexcept {
    Memory::word(ring_, at).store(std::bit_cast<std::uint64_t>(header), std::memory_order_release);
  }

  /// Looks how far the reader is and goes to the start of the ring if the record does not fit at the end.
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
  std::uint32_t limit_ = 0;    // messages must be shorter; 0 = off
  std::uint32_t written_ = 0;  // modulo 2^32, as the reader's counter
  std::uint32_t start_ = 0;    // value of the counters at the start of the ring
  std::uint32_t room_ = 0;     // bytes that can be written at once without looking at the reader
  const Counter* released_ = nullptr;
  bool broken_ = false;
};
using BoxWriter = BasicBoxWriter<HostMemory>;

/// A record as its reader found it.
struct BoxRecord {
  Tag tag;
  std::uint16_t seq;
  ByteSpan data;  ///< in the ring, valid until the reader pops it
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
        wiped_(consumed_),
        start_(consumed_),
        released_(&released) {}

  /// True when look() would find something.  One load of a line that nobody else writes while the ring is idle.
  [[nodiscard]] bool ready() const noexcept { return Memory::word(ring_, at_).load(std::memory_order_relaxed) != 0; }

  /// The oldest record, whose fields have been checked against the ring.
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
      return Look::record;
    }
  }

  /// Done with `record`, which look() has just given.
  void pop(const BoxRecord& record) noexcept { consume(record_bytes(record.data.size())); }

  /// Gives back all that has been read: before the box is taken back, so that the writer knows what has not been.
  void finish() noexcept { give_back(); }
  [[nodiscard]] std::uint32_t capacity() const noexcept { return capacity_; }

 private:
  void consume(std::uint32_t bytes) noexcept {
    consumed_ += bytes;
    at_ = (consumed_ - start_) & (capacity_ - 1);
    if (consumed_ - wiped_ >= capacity_ / 4) [[unlikely]]
      give_back();
  }

  [[gnu::noinline]] void give_back() noexcept {
    for (; wiped_ != consumed_; wiped_ += kCacheLine) {
      Memory::word(ring_, (wiped_ - start_) & (capacity_ - 1)).store(0, std::memory_order_relaxed);
    }
    released_->store(consumed_, std::memory_order_release);
  }

  std::byte* ring_ = nullptr;
  std::uint32_t at_ = 0;  // offset of the next record
  std::uint32_t capacity_ = 0;
  std::uint32_t consumed_ = 0;  // modulo 2^32
  std::uint32_t wiped_ = 0;     // up to here lines are wiped and given back
  std::uint32_t start_ = 0;
  Counter* released_ = nullptr;
};
using BoxReader = BasicBoxReader<HostMemory>;

}  // namespace opal::btl::sm
