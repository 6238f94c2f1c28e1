// SPDX-License-Identifier: Apache-2.0
// opal/rcache/registrations/use_order.hpp — finds the least recently used registration, although a use only records its
// time.  `ranked_` is sorted by the last use at the time of sorting.  `later_` is unsorted: all were used, or added,
// after that.  If the front of `ranked_` was not used since the sorting, it is the least recently used of all; else it
// moves to `later_`.  When `ranked_` is empty, the idle ones of `later_` are sorted into it.
// Cost: each use moves at most one registration once, so a use that an eviction follows costs a logarithmic time, and
// uses without evictions cost nothing.  Owns: nothing.  Threads: not safe; the cache locks.
#pragma once
#include <cstdint>

#include "opal/rcache/registrations/registration_list.hpp"

namespace opal::rcache {

class UseOrder {
 public:
  /// Adds a registration, which is in no list, as used now.
  void add(Registration& registration) noexcept { later_.push_back(registration); }
  static void remove(Registration& registration) noexcept { RegistrationList::of(registration)->remove(registration); }

  /// The least recently used one at the time of sorting; null: call rank().
  [[nodiscard]] Registration* front() const noexcept { return ranked_.front(); }
  /// True if the front, whose last use is now `last_use`, was not used since the sorting.
  [[nodiscard]] static bool ranked_right(const Registration& front, std::uint64_t last_use) noexcept {
    return front.rank_ == last_use;
  }
  /// Moves the front to `later_`, because it is in use or was used since the sorting.
  void postpone_front() noexcept { later_.push_back(*ranked_.pop_front()); }

  /// Sorts the idle ones of `later_` into `ranked_`.  `last_use_if_idle(registration, stamp)` returns false if the
  /// registration is in use, and sets `stamp` to its last use.  Returns true if there is a front afterwards.
  template <class LastUse>
  bool rank(LastUse last_use_if_idle) noexcept {
    Registration* next = nullptr;
    for (Registration* r = later_.front(); r != nullptr; r = next) {
      next = RegistrationList::next(*r);
      if (!last_use_if_idle(*r, r->rank_)) continue;
      later_.remove(*r);
      ranked_.push_back(*r);
    }
    sort(ranked_);
    return !ranked_.empty();
  }

  /// Becomes empty without an access to the registrations.
  void abandon() noexcept { ranked_ = later_ = {}; }

 private:
  static void sort(RegistrationList& list) noexcept;

  RegistrationList ranked_;
  RegistrationList later_;
};

}  // namespace opal::rcache
