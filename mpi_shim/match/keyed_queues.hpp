// SPDX-License-Identifier: Apache-2.0
// mpi_shim/match/keyed_queues.hpp — intrusive FIFO queues, one per key, in a hash table; all links are in the entries.
// Only the first entry of a queue is in a hash chain and the others are linked behind it, so there is no object per
// queue.  Adding and removing allocate nothing, except when the table grows (more queues than chains).
// Borrows the entries: an entry must not move or end while it is in a queue.  Threads: externally synchronised.
// Invariants: an entry is in at most one queue per Links member; an empty queue does not exist.
// Cost: push(), first() and remove() are O(1) expected, whatever the length of the queues.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace mpi_shim::match {

/// The links of an entry, one object for each KeyedQueues that the entry can be in.
template <class Entry>
struct Links {
  std::uint64_t key = 0;
  Entry* next = nullptr;      // in the queue
  Entry* previous = nullptr;  // in the queue; null: the first entry.  The following are valid in the first entry only:
  Entry* last = nullptr;      // the last entry of the queue
  Entry* chain_next = nullptr;   // the first entry of the next queue in the hash chain
  Entry** chain_slot = nullptr;  // the pointer in the hash chain that points to this entry
};

template <class Entry, Links<Entry> Entry::*links>
class KeyedQueues {
 public:
  /// Entries in all queues together.
  [[nodiscard]] std::size_t size() const noexcept { return entries_; }

  /// The first entry of the queue of `key`; null: there is no entry.
  [[nodiscard]] Entry* first(std::uint64_t key) const noexcept {
    if (entries_ == 0) return nullptr;
    for (Entry* head = chains_[chain_of(key)]; head != nullptr; head = (head->*links).chain_next) {
      if ((head->*links).key == key) return head;
    }
    return nullptr;
  }

  /// Appends `entry` to the queue of `key`.
  void push(Entry& entry, std::uint64_t key) {
    Links<Entry>& own = entry.*links;
    own = {};
    own.key = key;
    if (Entry* head = first(key); head != nullptr) {
      Links<Entry>& of_head = head->*links;
      own.previous = of_head.last;
      (of_head.last->*links).next = &entry;
      of_head.last = &entry;
    } else {
      if (queues_ >= chain_count_) grow();
      own.last = &entry;
      link(entry);
      ++queues_;
    }
    ++entries_;
  }

  /// Removes `entry` from its queue.  Requires: it is in one.
  void remove(Entry& entry) noexcept {
    Links<Entry>& own = entry.*links;
    --entries_;
    if (own.previous != nullptr) {
      (own.previous->*links).next = own.next;
      if (own.next != nullptr) {
        (own.next->*links).previous = own.previous;
      } else {
        // The last entry is removed: update the first one.
        (first(own.key)->*links).last = own.previous;
      }
      return;
    }
    if (own.next != nullptr) {  // the second entry becomes the first: it replaces `entry` in the chain
      Links<Entry>& heir = own.next->*links;
      heir.previous = nullptr;
      heir.last = own.last;
      heir.chain_next = own.chain_next;
      heir.chain_slot = own.chain_slot;
      if (own.chain_next != nullptr) (own.chain_next->*links).chain_slot = &heir.chain_next;
      *own.chain_slot = own.next;
      return;
    }
    if (own.chain_next != nullptr) (own.chain_next->*links).chain_slot = own.chain_slot;
    *own.chain_slot = own.chain_next;
    --queues_;
  }

  /// Calls visit(entry) for every entry, queue by queue; visit may remove the entry that it is called for.
  template <class Visit>
  void for_each(Visit&& visit) {
    for (std::size_t i = 0; i < chain_count_; ++i) {
      for (Entry* head = chains_[i]; head != nullptr;) {
        Entry* next_head = (head->*links).chain_next;
        for (Entry* entry = head; entry != nullptr;) {
          Entry* next = (entry->*links).next;
          visit(*entry);
          entry = next;
        }
        head = next_head;
      }
    }
  }

 private:
  static constexpr std::size_t kFirstChains = 64;

  [[nodiscard]] std::size_t chain_of(std::uint64_t key) const noexcept {
    // The upper bits of a product depend on all bits of the key.
    return static_cast<std::size_t>((key * 0x9e3779b97f4a7c15U) >> 32) & (chain_count_ - 1);
  }
  void link(Entry& head) noexcept {
    Links<Entry>& own = head.*links;
    Entry*& chain = chains_[chain_of(own.key)];
    own.chain_slot = &chain;
    own.chain_next = chain;
    if (chain != nullptr) (chain->*links).chain_slot = &own.chain_next;
    chain = &head;
  }
  void grow() {
    const std::size_t old_count = chain_count_;
    const std::unique_ptr<Entry*[]> old = std::move(chains_);
    chain_count_ = old_count == 0 ? kFirstChains : 2 * old_count;
    chains_ = std::make_unique<Entry*[]>(chain_count_);
    for (std::size_t i = 0; i < old_count; ++i) {
      for (Entry* head = old[i]; head != nullptr;) {
        Entry* next = (head->*links).chain_next;
        link(*head);
        head = next;
      }
    }
  }

  std::unique_ptr<Entry*[]> chains_;
  std::size_t chain_count_ = 0;
  std::size_t queues_ = 0;
  std::size_t entries_ = 0;
};

}  // namespace mpi_shim::match
