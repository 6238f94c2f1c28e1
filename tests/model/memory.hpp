// SPDX-License-Identifier: Apache-2.0
// tests/model/memory.hpp — atomics and rings whose every access the explorer sees.  What of std::atomic the
// shared-memory templates use, no more.
#pragma once
#include <cstring>

#include "opal/core/bytes.hpp"
#include "tests/model/explorer.hpp"

namespace opal::test::model {

template <class T>
class Atomic {
 public:
  explicit Atomic(T value = {}) : location_(Explorer::current().new_location(value)) {}
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  [[nodiscard]] T load(std::memory_order order) const noexcept {
    return static_cast<T>(Explorer::current().load(location_, order));
  }
  void store(T value, std::memory_order order) noexcept { Explorer::current().store(location_, value, order); }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order success, std::memory_order failure) noexcept {
    std::uint64_t old = expected;
    const bool done = Explorer::current().compare_exchange(location_, old, desired, success, failure);
    expected = static_cast<T>(old);
    return done;
  }
  T fetch_or(T bits, std::memory_order order) noexcept {
    return static_cast<T>(Explorer::current().fetch_or(location_, bits, order));
  }
  T exchange(T value, std::memory_order order) noexcept {
    return static_cast<T>(Explorer::current().exchange(location_, value, order));
  }

 private:
  std::uint32_t location_;
};

/// A plain word: an access that races is a failure.
class Plain {
 public:
  explicit Plain(std::uint64_t value = 0) : location_(Explorer::current().new_location(value)) {}
  void set(std::uint64_t value) noexcept { Explorer::current().plain_write(location_, value); }
  [[nodiscard]] std::uint64_t get() const noexcept { return Explorer::current().plain_read(location_); }

 private:
  std::uint32_t location_;
};

/// The bytes of a fast box: words that are accessed atomically as headers and plainly as payload.  Only the first two
/// words of each line are modelled; the tests' messages are one word per line.
class Ring {
 public:
  explicit Ring(std::size_t lines) : bytes_(lines * kCacheLine) {
    for (std::size_t i = 0; i < lines * 2; ++i) locations_.push_back(Explorer::current().new_location(0));
    the_ring = this;
  }
  [[nodiscard]] MutableBytes bytes() noexcept { return bytes_; }
  [[nodiscard]] std::uint32_t location(std::size_t offset) const {
    if (offset % kCacheLine >= 16) std::abort();
    return locations_[offset / kCacheLine * 2 + offset % kCacheLine / 8];
  }
  [[nodiscard]] std::size_t offset_of(const std::byte* place) const {
    return static_cast<std::size_t>(place - bytes_.data());
  }
  /// A word of a message.
  [[nodiscard]] std::uint64_t read(const std::byte* place) const {
    return Explorer::current().plain_read(location(offset_of(place)));
  }

  static inline Ring* the_ring = nullptr;

 private:
  std::vector<std::byte> bytes_;  // never touched: names of places
  std::vector<std::uint32_t> locations_;
};

/// What the fast box's templates need of memory (HostMemory in fast_box.hpp is the real one).
struct Memory {
  using Counter = Atomic<std::uint32_t>;
  struct Word {
    std::uint32_t location;
    [[nodiscard]] std::uint64_t load(std::memory_order order) const {
      return Explorer::current().load(location, order);
    }
    void store(std::uint64_t value, std::memory_order order) const {
      Explorer::current().store(location, value, order);
    }
  };
  static Word word(std::byte* ring, std::uint32_t offset) noexcept {
    return {Ring::the_ring->location(Ring::the_ring->offset_of(ring) + offset)};
  }
  /// Payload: the whole word, and the first word of each further line that a longer message covers.
  static void copy(std::byte* to, ByteSpan bytes) noexcept {
    if (bytes.empty()) return;
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
    const std::size_t from = Ring::the_ring->offset_of(to);
    Explorer::current().plain_write(Ring::the_ring->location(from), value);
    for (std::size_t line = from / kCacheLine + 1; line * kCacheLine < from + bytes.size(); ++line) {
      Explorer::current().plain_write(Ring::the_ring->location(line * kCacheLine), ~std::uint64_t{0});
    }
  }
};

}  // namespace opal::test::model
