// SPDX-License-Identifier: Apache-2.0
// opal/rcache/registrations/hint_table.hpp — from the begin of a request to registrations that may serve it: hash lines
// of one cache line each, read without a lock.  Forgets and remembers wrongly as it likes: a hint says where to search,
// and its user checks the registration.  A request is looked for under its exact begin, its page and its 2 MiB block;
// under the latter two stand only registrations that contain all of the page or block.
// Owns: its lines; those it outgrew stay until the end, since some reader may still use them.
// Threads: find() from any; everything else under the cache's lock, but for make().
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "opal/rcache/registrations/large_array.hpp"
#include "opal/rcache/registrations/registration.hpp"

namespace opal::rcache {

class HintTable {
 public:
  HintTable() noexcept = default;
  HintTable(const HintTable&) = delete;
  HintTable& operator=(const HintTable&) = delete;

  /// The first hint for `begin` that `serves(Registration&)` accepts; null when there is none.
  template <class Serves>
  Registration* find(std::uintptr_t begin, Serves serves) const noexcept {
    const Lines* const now = lines_.load(std::memory_order_acquire);
    if (now == nullptr) return nullptr;
    const Lines& lines = *now;
    if (Registration* const found = probe(lines, begin, serves); found != nullptr) [[likely]]
      return found;
    for (const std::uintptr_t block : kBlocks) {
      if ((blocks_.load(std::memory_order_relaxed) & block) == 0) continue;
      if (Registration* const found = probe(lines, (begin & ~(block - 1)) + block / 2, serves); found != nullptr)
        return found;
    }
    return nullptr;
  }

  /// Remembers that `registration` served a request that begins at `begin`.
  void remember(std::uintptr_t begin, Registration& registration) noexcept;

  /// Lines in rows, each of 8 words: 48 bits of address, 16 bits of the key's hash.
  struct Lines {
    struct alignas(kCacheLine) Line {
      std::array<std::atomic<std::uint64_t>, 8> words;
    };
    explicit Lines(LargeArray<Line> memory, std::size_t lines) noexcept : mask(lines - 1), rows(std::move(memory)) {}
    const std::size_t mask;
    const LargeArray<Line> rows;
    std::unique_ptr<Lines> before{};
  };

  /// The number of lines that suits `registrations`; 0 when those at hand do.
  [[nodiscard]] std::size_t wanted(std::size_t registrations) const noexcept;
  /// Empty lines; null when memory is short.  Without the lock.
  static std::unique_ptr<Lines> make(std::size_t lines) noexcept;
  /// Starts over with `lines`.
  void take(std::unique_ptr<Lines> lines) noexcept;
  /// Forgets everything without looking at it.
  void abandon() noexcept;

 private:
  static constexpr std::uintptr_t kBlocks[] = {std::uintptr_t{1} << 12, std::uintptr_t{1} << 21};
  static constexpr int kTagShift = 48;

  static std::uint64_t hash(std::uintptr_t key) noexcept {
    const std::uint64_t mixed = key * 0x9e3779b97f4a7c15U;
    return mixed ^ (mixed >> 32);
  }
  static std::uint64_t tag(std::uint64_t hash) noexcept { return hash >> kTagShift; }
  /// Where in its line a key is looked for first: most stand there, which the branch predictor can tell.
  static std::size_t first(std::uint64_t hash) noexcept { return hash >> 40; }
  static Registration* address(std::uint64_t word) noexcept {
    return reinterpret_cast<Registration*>(static_cast<std::uintptr_t>(word << 16 >> 16));  // NOLINT
  }

  template <class Serves>
  static Registration* probe(const Lines& lines, std::uintptr_t key, Serves& serves) noexcept {
    const std::uint64_t h = hash(key);
    const auto& words = lines.rows[h & lines.mask].words;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::uint64_t word = words[(first(h) + i) % words.size()].load(std::memory_order_acquire);
      if (word >> kTagShift != tag(h) || word == 0) continue;
      if (Registration* const hint = address(word); serves(*hint)) return hint;
    }
    return nullptr;
  }
  void put(std::uintptr_t key, Registration& registration) noexcept;

  std::atomic<Lines*> lines_{nullptr};     // none yet: a cache that never held anything costs nothing
  std::atomic<std::uintptr_t> blocks_{0};  // sizes of blocks that something stands under
  std::unique_ptr<Lines> owned_;           // what lines_ shows
  std::unique_ptr<Lines> outgrown_;        // a reader may still be in there
  std::uint32_t victim_ = 0;               // the next word of a full line to overwrite
};

}  // namespace opal::rcache
