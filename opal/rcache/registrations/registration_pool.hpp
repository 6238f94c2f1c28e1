// SPDX-License-Identifier: Apache-2.0
// opal/rcache/registrations/registration_pool.hpp — allocates the Registration objects of a cache.  It frees none
// before its destructor, so a thread with an old pointer still finds a Registration.  Owns: all of them.
// Threads: under the cache's lock, but for make_slab().
#pragma once
#include <cstddef>
#include <memory>

#include "opal/rcache/registrations/large_array.hpp"
#include "opal/rcache/registrations/registration_list.hpp"

namespace opal::rcache {

class RegistrationPool {
 public:
  struct Slab {
    LargeArray<Registration> registrations;
    std::size_t size = 0;
    std::unique_ptr<Slab> next{};
  };

  RegistrationPool() noexcept = default;
  RegistrationPool(const RegistrationPool&) = delete;
  RegistrationPool& operator=(const RegistrationPool&) = delete;
  ~RegistrationPool() {
    while (slabs_ != nullptr) slabs_ = std::move(slabs_->next);  // not by recursion
  }

  /// The number of objects to add if the pool is empty().
  [[nodiscard]] std::size_t next_slab() const noexcept;
  /// Allocates `size` objects for add(); null if memory is short.  Call it without the lock.
  static std::unique_ptr<Slab> make_slab(std::size_t size) noexcept;
  void add(std::unique_ptr<Slab> slab) noexcept;

  [[nodiscard]] bool empty() const noexcept { return free_.empty(); }
  /// Removes and returns a free object.  Requires: not empty().
  Registration& take() noexcept { return *free_.pop_front(); }
  void give_back(Registration& registration) noexcept;

  /// take() returns none of the present objects from now on; they stay as they are until the destructor.
  void abandon() noexcept { free_ = {}; }

 private:
  RegistrationList free_;
  std::unique_ptr<Slab> slabs_;
  std::size_t size_ = 0;  // objects in all slabs
};

}  // namespace opal::rcache
