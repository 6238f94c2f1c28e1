// SPDX-License-Identifier: Apache-2.0
// opal/memory/page_bitmap.hpp — a bit for every page of a range of addresses.  Whoever needs space claims whole words,
// so that no two claims share one, and sets in them the bits of the pages that it uses; a word without bits is free.
// Threads: any, also signal handlers: nothing waits or allocates.  Owns nothing: the words live as long as the process.
#pragma once
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace opal::memory {

/// Pages [begin, end) by number.
struct Pages {
  std::size_t begin = 0;
  std::size_t end = 0;
  [[nodiscard]] bool empty() const noexcept { return begin >= end; }
};

class PageBitmap {
 public:
  using Word = std::atomic<std::uint64_t>;
  static constexpr std::size_t kPerWord = 64;
  static_assert(Word::is_always_lock_free);

  PageBitmap() noexcept = default;
  explicit PageBitmap(std::span<Word> words) noexcept : words_(words) {}

  [[nodiscard]] std::size_t pages() const noexcept { return words_.size() * kPerWord; }

  void set(Pages range) noexcept {
    for_each_word(range, [&](std::size_t word, std::uint64_t mask) {
      words_[word].fetch_or(mask, std::memory_order_release);
      return true;
    });
  }
  void clear(Pages range) noexcept {
    for_each_word(range, [&](std::size_t word, std::uint64_t mask) {
      words_[word].fetch_and(~mask, std::memory_order_release);
      return true;
    });
  }
  [[nodiscard]] bool any(Pages range) const noexcept {
    bool found = false;
    for_each_word(range, [&](std::size_t word, std::uint64_t mask) {
      found = (words_[word].load(std::memory_order_acquire) & mask) != 0;
      return !found;
    });
    return found;
  }
  [[nodiscard]] bool all(Pages range) const noexcept {
    bool every = true;
    for_each_word(range, [&](std::size_t word, std::uint64_t mask) {
      every = (words_[word].load(std::memory_order_acquire) & mask) == mask;
      return every;
    });
    return every;
  }
  /// The first pages at or after range.begin whose bits are set, up to the first whose bit is not; empty: none.
  [[nodiscard]] Pages next_run(Pages range) const noexcept {
    const std::size_t begin = find(range, true);
    return {begin, find({begin, range.end}, false)};
  }

  /// Takes free words for `count` pages, the lowest from `hint` on, then from the start, and sets the pages' bits.
  std::optional<Pages> claim(std::size_t count, std::size_t hint) noexcept {
    const std::size_t start = std::min(hint / kPerWord, words_.size());
    auto found = claim_between(count, start, words_.size());
    return found || start == 0 ? found : claim_between(count, 0, words_.size());
  }
  /// Takes exactly these pages, if the rest of the word they begin in, and all further words, are free.
  bool claim_at(Pages range) noexcept {
    if (range.end > pages()) return false;
    const std::size_t first = range.begin / kPerWord;
    for (std::size_t word = first; word * kPerWord < range.end; ++word) {
      const std::uint64_t wanted = mask_of(word, range);
      std::uint64_t before = words_[word].load(std::memory_order_relaxed);
      const std::uint64_t others =
          word == first ? ~((std::uint64_t{1} << range.begin % kPerWord) - 1) : ~std::uint64_t{0};
      bool took = false;
      while ((before & others) == 0 && !took) {
        took = words_[word].compare_exchange_weak(before, before | wanted, std::memory_order_acquire,
                                                  std::memory_order_relaxed);
      }
      if (!took) {
        clear({range.begin, std::max(range.begin, word * kPerWord)});
        return false;
      }
    }
    return true;
  }

 private:
  static std::uint64_t mask_of(std::size_t word, Pages range) noexcept {
    const std::size_t base = word * kPerWord;
    const std::size_t from = range.begin > base ? range.begin - base : 0;
    const std::size_t to = std::min(range.end - base, kPerWord);
    const std::uint64_t below = to == kPerWord ? ~std::uint64_t{0} : (std::uint64_t{1} << to) - 1;
    return below & ~((std::uint64_t{1} << from) - 1);
  }

  /// Calls visit(word, mask) for the words of `range` until it says false.
  template <class Visit>
  static void for_each_word(Pages range, Visit visit) noexcept {
    if (range.empty()) return;
    for (std::size_t word = range.begin / kPerWord; word * kPerWord < range.end; ++word) {
      if (!visit(word, mask_of(word, range))) return;
    }
  }

  /// The first page of `range` whose bit is `value`; range.end: none.
  [[nodiscard]] std::size_t find(Pages range, bool value) const noexcept {
    std::size_t found = range.end;
    for_each_word(range, [&](std::size_t word, std::uint64_t mask) {
      const std::uint64_t bits = words_[word].load(std::memory_order_acquire);
      const std::uint64_t hits = (value ? bits : ~bits) & mask;
      if (hits != 0) found = word * kPerWord + static_cast<std::size_t>(std::countr_zero(hits));
      return hits == 0;
    });
    return found;
  }

  std::optional<Pages> claim_between(std::size_t count, std::size_t from, std::size_t to) noexcept {
    const std::size_t needed = (count + kPerWord - 1) / kPerWord;
    std::size_t run = 0;
    for (std::size_t word = from; word < to; ++word) {
      run = words_[word].load(std::memory_order_relaxed) == 0 ? run + 1 : 0;
      if (run < needed) continue;
      const std::size_t begin = (word + 1 - needed) * kPerWord;
      const Pages range{begin, begin + count};
      if (claim_at(range)) return range;
      run = 0;  // somebody else was here first
    }
    return std::nullopt;
  }

  std::span<Word> words_;
};

}  // namespace opal::memory
