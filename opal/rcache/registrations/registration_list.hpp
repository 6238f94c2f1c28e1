// SPDX-License-Identifier: Apache-2.0
// opal/rcache/registrations/registration_list.hpp — an intrusive doubly linked list of registrations.
// Owns: nothing.  Threads: not safe; the cache locks.
#pragma once
#include <cstddef>

#include "opal/rcache/registrations/registration.hpp"

namespace opal::rcache {

class RegistrationList {
 public:
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] Registration* front() const noexcept { return first_; }  ///< null when empty

  void push_back(Registration& registration) noexcept {
    registration.previous_ = last_;
    registration.next_ = nullptr;
    registration.list_ = this;
    ++size_;
    (last_ != nullptr ? last_->next_ : first_) = &registration;
    last_ = &registration;
  }

  void push_front(Registration& registration) noexcept {
    registration.previous_ = nullptr;
    registration.next_ = first_;
    registration.list_ = this;
    ++size_;
    (first_ != nullptr ? first_->previous_ : last_) = &registration;
    first_ = &registration;
  }

  /// The list that contains `registration`; null if none does.
  [[nodiscard]] static RegistrationList* of(const Registration& registration) noexcept { return registration.list_; }

  /// Requires: `registration` is in this list.
  void remove(Registration& registration) noexcept {
    (registration.previous_ != nullptr ? registration.previous_->next_ : first_) = registration.next_;
    (registration.next_ != nullptr ? registration.next_->previous_ : last_) = registration.previous_;
    registration.previous_ = registration.next_ = nullptr;
    registration.list_ = nullptr;
    --size_;
  }

  /// Removes and returns the first one; null if empty.
  Registration* pop_front() noexcept {
    Registration* const first = first_;
    if (first != nullptr) remove(*first);
    return first;
  }

  /// The one after `registration`; null at the end.
  [[nodiscard]] static Registration* next(const Registration& registration) noexcept { return registration.next_; }

 private:
  Registration* first_ = nullptr;
  Registration* last_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace opal::rcache
