// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/messages/memory/fragment_pool.hpp — the fragments of one segment, on the sender's side: two sizes, grown
// on demand up to a limit per size.  The receiver handles a segment's messages in the order of sending and returns
// fragments in that order.  So one counter per size is enough: no flag per fragment, no read-modify-write.
// It owns only numbers; the bytes are the segment's SharedPool.  Threads: as the module.
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

/// Room for one message.  `header` is null when there is none.
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

  /// At most `budget` bytes in fragments of each size: a quarter for the small, the rest for the large.
  FragmentPool(mpool::SharedPool& memory, const std::atomic<std::uint32_t>* released, const Sizes& sizes,
               std::size_t budget);

  /// Small fragments, and announcements beyond the window, that only answers may use.
  static constexpr std::uint32_t kForAnswers = 8;

  /// At most `window` fragments may be with the receiver at a time: this sender's share of his FIFO.
  void set_window(std::uint32_t window) noexcept { window_ = window; }

  /// A fragment for `size` <= the largest payload.  Empty: too many are with the receiver, or memory is short.
  [[nodiscard]] FragmentRef take(std::size_t size, bool answer) noexcept {
    const std::uint32_t size_class = size <= classes_[0].payload ? 0 : 1;
    Class& pool = classes_[size_class];
    const std::uint32_t keep = answer ? 0 : pool.for_answers;
    const std::uint32_t window = answer ? window_ + kForAnswers : window_;
    if ((!pool.has_more_than(keep) || flying_ >= window) && !refill(pool, keep, window)) [[unlikely]]
      return {};
    const std::uint32_t line = pool.free.back();
    pool.free.pop_back();
    return at(line, size_class);
  }

  /// Gives an unsent fragment back.
  void put_back(FragmentRef fragment) noexcept { classes_[fragment.size_class].free.push_back(fragment.line); }

  /// The fragment has been sent: it is the receiver's until its counter says otherwise.
  void sent(FragmentRef fragment) noexcept {
    classes_[fragment.size_class].push_sent(fragment.line);
    ++flying_;
  }

  /// Of each class whose fragments are in flight: what the receiver's counter will be when it has given back more than
  /// take() found when it refused.
  void mark(std::span<std::uint32_t, wire::kFragmentClasses> counters) const noexcept {
    for (std::size_t i = 0; i < classes_.size(); ++i) {
      if (classes_[i].flying != 0) counters[i] = classes_[i].reclaimed + 1;
    }
  }

  /// The fragment whose first line is `line`.
  [[nodiscard]] FragmentRef at(std::uint32_t line, std::uint32_t size_class) const noexcept {
    return {reinterpret_cast<wire::FragmentHeader*>(base_ + std::size_t{line} * kCacheLine), line, size_class};
  }

  /// True when the receiver's counter made no sense.
  [[nodiscard]] bool broken() const noexcept { return broken_; }

 private:
  struct Class {
    std::size_t payload = 0;
    std::uint32_t stride = 0;  // bytes of one fragment with its header
    std::uint32_t most = 0;    // fragments of this class
    std::uint32_t for_answers = 0;
    std::uint32_t made = 0;       // so far
    std::uint32_t reclaimed = 0;  // modulo 2^32, as the receiver's counter
    const std::atomic<std::uint32_t>* released = nullptr;
    std::vector<std::uint32_t> free;       // lines; last in first out: the warm one first
    std::vector<std::uint32_t> in_flight;  // ring of `most` lines in the order of sending
    std::uint32_t first = 0;
    std::uint32_t flying = 0;

    /// Whether there is one to take, with `keep` others left that exist or can be made.
    [[nodiscard]] bool has_more_than(std::uint32_t keep) const noexcept {
      return !free.empty() && free.size() + (most - made) > keep;
    }
    void push_sent(std::uint32_t line) noexcept {
      const std::uint32_t place = first + flying < most ? first + flying : first + flying - most;
      in_flight[place] = line;
      ++flying;
    }
  };

  /// Takes back what the receiver has released; makes more if none is free.  Whether there is one to take.
  [[gnu::noinline]] bool refill(Class& pool, std::uint32_t keep, std::uint32_t window) noexcept;
  void reclaim(Class& pool) noexcept;
  void grow(Class& pool) noexcept;

  mpool::SharedPool* memory_;
  std::byte* base_;
  std::array<Class, wire::kFragmentClasses> classes_;
  std::uint32_t window_ = UINT32_MAX - kForAnswers;
  std::uint32_t flying_ = 0;  // of both classes
  bool broken_ = false;
};

}  // namespace opal::btl::sm
