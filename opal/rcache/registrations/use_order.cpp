// SPDX-License-Identifier: Apache-2.0
#include "opal/rcache/registrations/use_order.hpp"

#include <array>
#include <utility>

namespace opal::rcache {

/// Merge sort by rank on the links of the list, without other memory.  A sorted part of the list is one run (natural
/// merging: Knuth, TAOCP 3, 5.2.4).  Often the whole list is sorted, because each registration was last used when it
/// was registered.  `runs[k]` is the merge of 2^k runs of the list, or null.
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
