// SPDX-License-Identifier: Apache-2.0
// opal/rcache/registrations/hint_table.hpp — a hash table from the begin of a request to registrations that may serve
// it.  Readers take no lock.  An entry is only a hint: it may be overwritten at any time, and may name a registration
// that serves other memory meanwhile, so the reader checks it.  Registrations live as long as the cache.
// The keys of a request are its begin, its 4 KiB page and its 2 MiB block.  The latter two lead only to registrations
// that contain the whole page or block.
// Owns: its lines.  Replaced lines are kept until the destructor, because a reader may still use them.
// Threads: find() and make() from any thread; all other functions under the cache's lock.
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

  /// The first hint for `begin` for which `serves(Registration&)` returns true; null if there is none.
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

  /// Adds hints to `registration`, which serves a request that begins at `begin`.
  void remember(std::uintptr_t begin, Registration& registration) noexcept;

  /// An array of hash lines.  A line is one cache line of 8 words; a word has 16 bits of the key's hash, its tag, and
  /// 48 bits of the registration's address.
  struct Lines {
    struct alignas(kCacheLine) Line {
      std::array<std::atomic<std::uint64_t>, 8> words;
    };
    explicit Lines(LargeArray<Line> memory, std::size_t lines) noexcept : mask(lines - 1), rows(std::move(memory)) {}
    const std::size_t mask;
    const LargeArray<Line> rows;
    std::unique_ptr<Lines> before{};  // the lines replaced before these
  };

  /// The number of lines to grow to for this number of registrations; 0: the present lines suffice.
  [[nodiscard]] std::size_t wanted(std::size_t registrations) const noexcept;
  /// Allocates empty lines, a power of two; null if memory is short.  Call it without the lock.
  static std::unique_ptr<Lines> make(std::size_t lines) noexcept;
  /// Replaces the lines by `lines`; all hints are lost.
  void take(std::unique_ptr<Lines> lines) noexcept;
  /// Drops all hints without an access to the lines; also for a forked child.
  void abandon() noexcept;

 private:
  // The key of a block is its middle address, so that it is not the begin of an aligned request.
  static constexpr std::uintptr_t kBlocks[] = {std::uintptr_t{1} << 12, std::uintptr_t{1} << 21};
  static constexpr int kTagShift = 48;

  static std::uint64_t hash(std::uintptr_t key) noexcept {
    const std::uint64_t mixed = key * 0x9e3779b97f4a7c15U;
    return mixed ^ (mixed >> 32);
  }
  static std::uint64_t tag(std::uint64_t hash) noexcept { return hash >> kTagShift; }
  /// The word of the line, modulo 8, at which the search for a key begins.  Most keys are found there, so the branch is
  /// predicted.
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
  void insert(std::uintptr_t key, Registration& registration) noexcept;

  std::atomic<Lines*> lines_{nullptr};     // = owned_.get(), for readers; null until the first registration
  std::atomic<std::uintptr_t> blocks_{0};  // the sizes of kBlocks for which there are hints, ORed
  std::unique_ptr<Lines> owned_;           // the present lines
  std::unique_ptr<Lines> outgrown_;        // list of replaced lines, which a reader may still use
  std::uint32_t victim_ = 0;               // modulo 8, the word to overwrite when a line is full
};

}  // namespace opal::rcache
