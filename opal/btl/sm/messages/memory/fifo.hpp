// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/messages/memory/fifo.hpp — a bounded queue of 64-bit words with many producers and one consumer, as views
// that borrow shared slots.  A producer finds the first empty slot and changes it to full by one compare-and-swap.  No
// slot is ever taken but not written, so a producer killed at any instruction leaves the queue intact.  `tail` is a
// hint where producers start to search; only the laps in the slots (wire.hpp) are authoritative.  A broken peer can
// write a wrong `tail`; the consumer repairs it (heal()).  Threads: any number of producers; one consumer.
#pragma once
#include <atomic>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>

#include "opal/btl/sm/messages/memory/wire.hpp"

namespace opal::btl::sm {

/// `Word` is std::atomic<std::uint64_t>, or a model's.  The number of slots is a power of two.
template <class Word>
class BasicFifoProducer {
 public:
  BasicFifoProducer() noexcept = default;
  BasicFifoProducer(std::span<Word> slots, Word& tail) noexcept
      : slots_(slots), tail_(&tail), log_(static_cast<std::uint32_t>(std::countr_zero(slots.size()))) {}

  [[nodiscard]] std::size_t slots() const noexcept { return slots_.size(); }

  /// True when at least half of the slots are free.  An estimate: it relies on `tail`.
  [[nodiscard]] bool half_empty() const noexcept {
    return is_free(tail_->load(std::memory_order_relaxed) + slots_.size() / 2);
  }

  /// Appends `item` if `keep` further items would fit.  What this thread wrote before is visible to the consumer that
  /// takes the item.  False: the queue is too full.
  [[nodiscard]] bool push(wire::FifoItem item, std::size_t keep = 0) noexcept {
    std::uint64_t position = tail_->load(std::memory_order_relaxed);
    // Two laps suffice for any value of `tail`; after more, other producers fill slots as fast as this one looks.
    for (std::size_t looks = 2 * slots_.size() + 8; looks != 0; --looks) {
      Word& slot = slots_[position & (slots_.size() - 1)];
      const std::uint64_t lap = position >> log_ & wire::kLapMask;
      std::uint64_t word = slot.load(std::memory_order_relaxed);
      if (word == wire::empty_slot(lap)) {
        if (keep != 0 && !is_free(position + keep)) return false;
        if (slot.compare_exchange_strong(word, wire::full_slot(lap, item), std::memory_order_release,
                                         std::memory_order_relaxed)) {
          tail_->store(position + 1, std::memory_order_release);
          return true;
        }
      }
      if (wire::is_full(word) && wire::lap_of(word) == ((lap - 1) & wire::kLapMask)) return false;
      // `word` shows which position of this slot was taken last: continue after it.
      const std::uint64_t taken_lap = wire::lap_of(word) - (wire::is_full(word) ? 0 : 1);
      const std::uint64_t forward = (taken_lap - lap) & wire::kLapMask;
      const bool backward = forward > wire::kLapMask / 2;
      const std::uint64_t laps = backward ? forward - (wire::kLapMask + 1) : forward;  // wraps: adds a negative number
      position += (laps << log_) + 1;
    }
    return false;
  }

 private:
  /// True when the consumer has emptied the slot of `position`, and so all before it, since the previous lap.
  [[nodiscard]] bool is_free(std::uint64_t position) const noexcept {
    const std::uint64_t lap = position >> log_ & wire::kLapMask;
    const std::uint64_t word = slots_[position & (slots_.size() - 1)].load(std::memory_order_relaxed);
    return wire::lap_of(word) != ((lap - 1) & wire::kLapMask);
  }

  std::span<Word> slots_;
  Word* tail_ = nullptr;
  std::uint32_t log_ = 0;
};

template <class Word>
class BasicFifoConsumer {
 public:
  BasicFifoConsumer() noexcept = default;
  BasicFifoConsumer(std::span<Word> slots, Word& tail) noexcept
      : slots_(slots), tail_(&tail), log_(static_cast<std::uint32_t>(std::countr_zero(slots.size()))) {
    move_to(0);
  }

  /// Empties every slot, for lap 0.  Requires: no producer has the queue yet.
  void reset() noexcept {
    for (Word& slot : slots_) slot.store(wire::empty_slot(0), std::memory_order_relaxed);
    tail_->store(0, std::memory_order_release);
    move_to(0);
  }

  [[nodiscard]] bool empty() const noexcept { return next_->load(std::memory_order_relaxed) == vacant_; }

  /// Returns the oldest item without removing it; nothing: the queue is empty.  A peer wrote the item: check it.  An
  /// invalid slot gives an item with peer == kMaxPeers.
  [[nodiscard]] std::optional<wire::FifoItem> front() const noexcept {
    const std::uint64_t word = next_->load(std::memory_order_acquire);
    if (word == vacant_) return std::nullopt;
    // Only a broken peer writes another word.  If it destroyed an item, the sequence numbers show the missing message.
    if (word != wire::full_slot(head_ >> log_, wire::item_of(word))) [[unlikely]]
      return wire::FifoItem{wire::kMaxPeers, 0};
    return wire::item_of(word);
  }

  /// Removes the oldest item.  Requires: the last front() returned it.
  void drop_front() noexcept {
    next_->store(wire::empty_slot((head_ >> log_ & wire::kLapMask) + 1), std::memory_order_release);
    move_to(head_ + 1);
  }

  /// Repairs `tail` while the queue is empty, when its right value is known here.  A producer that appends at the same
  /// time makes `tail` lag, which is harmless.  Call rarely: it reads the producers' cache line.
  void heal() noexcept {
    if (empty() && tail_->load(std::memory_order_relaxed) != head_) tail_->store(head_, std::memory_order_release);
  }

  /// True when at most half of the slots are full.
  [[nodiscard]] bool half_empty() const noexcept {
    const std::uint64_t position = head_ + slots_.size() / 2;
    return slots_[position & (slots_.size() - 1)].load(std::memory_order_relaxed) ==
           wire::empty_slot(position >> log_ & wire::kLapMask);
  }

  [[nodiscard]] std::uint64_t head() const noexcept { return head_; }  ///< items removed since reset()
  [[nodiscard]] std::size_t slots() const noexcept { return slots_.size(); }

 private:
  void move_to(std::uint64_t position) noexcept {
    head_ = position;
    next_ = &slots_[position & (slots_.size() - 1)];
    vacant_ = wire::empty_slot(position >> log_);
  }

  // The only members that a poll of an empty queue reads.
  Word* next_ = nullptr;      // the slot of the next item
  std::uint64_t vacant_ = 0;  // value of that slot while it is empty
  std::span<Word> slots_;
  Word* tail_ = nullptr;
  std::uint32_t log_ = 0;
  std::uint64_t head_ = 0;
};

using FifoSlots = std::span<std::atomic<std::uint64_t>>;
using FifoProducer = BasicFifoProducer<std::atomic<std::uint64_t>>;
using FifoConsumer = BasicFifoConsumer<std::atomic<std::uint64_t>>;

}  // namespace opal::btl::sm
