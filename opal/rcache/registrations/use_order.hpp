// SPDX-License-Identifier: Apache-2.0
// opal/rcache/registrations/use_order.hpp — registrations in the order of their last use, although a use only writes
// down its time. Two lists: `ranked_`, sorted by the last use known when it was sorted, and `later_`, unsorted, each of
// them used (or new) since.  Hence the front of `ranked_`, if it was not used since either, is the one used longest ago
// of all; if it was, it goes to `later_`.  When `ranked_` is empty, what is idle in `later_` is sorted anew.  Every use
// so makes at most one registration move once: logarithmic per use that is followed by an eviction, nothing without
// evictions. Owns: nothing.  Threads: none of its own, the cache locks.
#pragma once
#include <cstddef>
#include <cstdint>

#include "opal/rcache/registrations/registration_list.hpp"

namespace opal::rcache {

class UseOrder {
 public:
  [[nodiscard]] std::size_t size() const noexcept { return ranked_.size() + later_.size(); }

  /// Takes in one that is used now.
  void add(Registration& registration) noexcept { later_.push_back(registration); }
  static void remove(Registration& registration) noexcept { RegistrationList::of(registration)->remove(registration); }

  /// The one that was used longest ago when they were sorted; null when they have to be sorted.
  [[nodiscard]] Registration* front() const noexcept { return ranked_.front(); }
  /// Whether the front has not been used since, its last use being `last_use`.
  [[nodiscard]] static bool ranked_right(const Registration& front, std::uint64_t last_use) noexcept {
    return front.rank_ == last_use;
  }
  /// The front turned out to be in use or to have been used since.
  void postpone_front() noexcept { later_.push_back(*ranked_.pop_front()); }

  /// Sorts anew: `last_use_if_idle(registration, stamp)` returns false for those in use.  True when there is a front.
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

  /// Forgets all of them without looking at any.
  void abandon() noexcept { ranked_ = later_ = {}; }

 private:
  static void sort(RegistrationList& list) noexcept;

  RegistrationList ranked_;
  RegistrationList later_;
};

}  // namespace opal::rcache
