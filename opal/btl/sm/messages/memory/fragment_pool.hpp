// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/messages/memory/fragment_pool.hpp — the fragments of one segment, on the sender's side: two sizes, grown
// on demand up to a limit per size.  The receiver handles a segment's messages in the order of sending and returns
// fragments in that order.  So one counter per size is enough: no flag per fragment, no read-modify-write.
// Owns only the bookkeeping; the segment's SharedPool owns the bytes and must outlive it.  Threads: with the send lock.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "opal/btl/sm/messages/memory/wire.hpp"
#include "opal/core/export.hpp"
#include "opal/mpool/shared_pool.hpp"

namespace opal::btl::sm {

/// Names one fragment; empty: `header` is null.
struct FragmentRef {
  wire::FragmentHeader* header = nullptr;
  std::uint32_t line = 0;        ///< offset in the segment in cache lines
  std::uint32_t size_class = 0;  ///< < wire::kFragmentClasses

  explicit operator bool() const noexcept { return header != nullptr; }
  [[nodiscard]] std::byte* body() const noexcept { return reinterpret_cast<std::byte*>(header + 1); }
};

class OPAL_EXPORT FragmentPool {
 public:
  using Sizes = std::array<std::size_t, wire::kFragmentClasses>;  ///< payload bytes, ascending

  /// `budget`: limit of all fragments in bytes, a quarter for small ones, the rest for large ones.  `released`: the
  /// receiver's counters, one per size.
  FragmentPool(mpool::SharedPool& memory, const std::atomic<std::uint32_t>* released, const Sizes& sizes,
               std::size_t budget);

  /// Number of small fragments, and of items in the peer's FIFO beyond the window, that only answers may use.
  static constexpr std::uint32_t kForAnswers = 8;

  /// Limits the fragments that are taken and not returned to `window` (answers: kForAnswers more): this sender's share
  /// of the peer's FIFO.
  void set_window(std::uint32_t window) noexcept { window_ = window; }

  /// Takes a fragment for a message of `size` bytes.  Requires: size <= the largest payload.  `answer`: is_answer(tag).
  /// Empty: too many are taken, no memory is left, or broken().
  [[nodiscard]] FragmentRef take(std::size_t size, bool answer) noexcept {
    const std::uint32_t size_class = size <= classes_[0].payload ? 0 : 1;
    Class& pool = classes_[size_class];
    const std::uint32_t keep = answer ? 0 : pool.for_answers;
    const std::uint32_t window = answer ? window_ + kForAnswers : window_;
    if ((!pool.has_more_than(keep) || taken_ >= window) && !refill(pool, keep, window)) [[unlikely]]
      return {};
    const std::uint32_t line = pool.free.back();
    pool.free.pop_back();
    ++taken_;
    return at(line, size_class);
  }

  /// Returns an unsent fragment to the pool.
  void put_back(FragmentRef fragment) noexcept {
    classes_[fragment.size_class].free.push_back(fragment.line);
    --taken_;
  }

  /// Marks a fragment as sent: the receiver owns it until it advances its counter.
  void sent(FragmentRef fragment) noexcept { classes_[fragment.size_class].push_sent(fragment.line); }

  /// Sets, for each class with fragments in flight, the value of the receiver's counter at which one more is free.
  void mark(std::span<std::uint32_t, wire::kFragmentClasses> counters) const noexcept {
    for (std::size_t i = 0; i < classes_.size(); ++i) {
      if (classes_[i].flying != 0) counters[i] = classes_[i].reclaimed + 1;
    }
  }

  /// The fragment of this class whose header is at cache line `line` of the segment.
  [[nodiscard]] FragmentRef at(std::uint32_t line, std::uint32_t size_class) const noexcept {
    return {reinterpret_cast<wire::FragmentHeader*>(base_ + std::size_t{line} * kCacheLine), line, size_class};
  }

  /// True when the receiver's counter had an invalid value; take() then only returns those that are free already.
  [[nodiscard]] bool broken() const noexcept { return broken_; }

 private:
  struct Class {
    std::size_t payload = 0;
    std::uint32_t stride = 0;  // bytes of one fragment with its header
    std::uint32_t most = 0;    // maximum of fragments of this class
    std::uint32_t for_answers = 0;
    std::uint32_t made = 0;                                // fragments that exist
    std::uint32_t reclaimed = 0;                           // value of `released` up to which fragments are free again
    const std::atomic<std::uint32_t>* released = nullptr;  // the receiver's counter
    std::vector<std::uint32_t> free;       // lines; last in, first out: the one most likely in the cache
    std::vector<std::uint32_t> in_flight;  // ring of `most` lines in the order of sending
    std::uint32_t first = 0;               // index of the oldest in in_flight
    std::uint32_t flying = 0;              // number of fragments in flight

    /// True when one is free, and `keep` others are free or can be made.
    [[nodiscard]] bool has_more_than(std::uint32_t keep) const noexcept {
      return !free.empty() && free.size() + (most - made) > keep;
    }
    void push_sent(std::uint32_t line) noexcept {
      const std::uint32_t place = first + flying < most ? first + flying : first + flying - most;
      in_flight[place] = line;
      ++flying;
    }
  };

  /// Frees what the receiver has returned, and makes more if none is free.  True: there is one to take.
  [[gnu::noinline]] bool refill(Class& pool, std::uint32_t keep, std::uint32_t window) noexcept;
  void reclaim(Class& pool) noexcept;
  void grow(Class& pool) noexcept;

  mpool::SharedPool* memory_;
  std::byte* base_;
  std::array<Class, wire::kFragmentClasses> classes_;
  std::uint32_t window_ = UINT32_MAX - kForAnswers;
  std::uint32_t taken_ = 0;  // of both classes, in flight or not yet sent
  bool broken_ = false;
};

}  // namespace opal::btl::sm
