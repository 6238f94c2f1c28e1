// SPDX-License-Identifier: Apache-2.0
#include "opal/rcache/registrations/use_order.hpp"

#include <array>
#include <utility>

namespace opal::rcache {

/// Merge sort by rank over the links of the list: no memory is needed.  What is in order already is one run (Knuth,
/// TAOCP 3, 5.2.4: natural merging), and mostly all of it is: each was last used when it was registered.  `runs[k]`
/// holds 2^k of those that were found, merged, or none.
void UseOrder::sort(RegistrationList& list) noexcept {
  const auto merge = [](Registration* a, Registration* b) noexcept {
    Registration* first = nullptr;
    Registration** end = &first;
    while (a != nullptr && b != nullptr) {
      Registration*& smaller = b->rank_ < a->rank_ ? b : a;
      *end = smaller;
      end = &smaller->next_;
      smaller = smaller->next_;
    }
    *end = a != nullptr ? a : b;
    return first;
  };
  std::array<Registration*, 64> runs{};
  std::size_t used = 0;
  Registration* rest = list.front();
  list = {};
  while (rest != nullptr) {
    Registration* run = rest;
    Registration* last = run;
    while (last->next_ != nullptr && last->rank_ <= last->next_->rank_) last = last->next_;
    rest = std::exchange(last->next_, nullptr);
    std::size_t k = 0;
    for (; k < used && runs[k] != nullptr; ++k) run = merge(std::exchange(runs[k], nullptr), run);
    runs[k] = run;
    used = std::max(used, k + 1);
  }
  Registration* sorted = nullptr;
  for (std::size_t k = 0; k < used; ++k) sorted = merge(runs[k], sorted);
  for (Registration* next = nullptr; sorted != nullptr; sorted = next) {
    next = sorted->next_;
    list.push_back(*sorted);
  }
}

}  // namespace opal::rcache
