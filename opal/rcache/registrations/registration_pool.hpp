// SPDX-License-Identifier: Apache-2.0
// opal/rcache/registrations/registration_pool.hpp — Registration objects that never go back to the heap while their
// cache lives, so that a reader that comes too late still finds a Registration. Owns: all of them.  Threads: under the
// cache's lock, but for make_slab().
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

  /// Objects to add when there is no free one.
  [[nodiscard]] std::size_t next_slab() const noexcept;
  /// Without the lock; null when memory is short.
  static std::unique_ptr<Slab> make_slab(std::size_t size) noexcept;
  void add(std::unique_ptr<Slab> slab) noexcept;

  [[nodiscard]] bool empty() const noexcept { return free_.empty(); }
  /// A free object; the pool is not empty().
  Registration& take() noexcept { return *free_.pop_front(); }
  void give_back(Registration& registration) noexcept;

  /// Where a walk over all objects is: they are never moved or freed, so it may let go of the lock in between, and then
  /// misses only those that were added since.
  struct Walk {
    const Slab* slab = nullptr;
    std::size_t next = 0;  // in the slab
    [[nodiscard]] bool ended() const noexcept { return slab == nullptr; }
  };
  [[nodiscard]] Walk begin_walk() const noexcept { return {slabs_.get()}; }
  /// `visit(registration)` for the next `most` objects, whatever their state.
  template <class Visit>
  static void go_on(Walk& walk, std::size_t most, Visit visit) noexcept {
    for (; most > 0 && !walk.ended(); --most) {
      visit(walk.slab->registrations[walk.next]);
      if (++walk.next == walk.slab->size) walk = {walk.slab->next.get()};
    }
  }

  /// Keeps all objects as they are for ever, and hands out none of them again.
  void abandon() noexcept { free_ = {}; }

 private:
  RegistrationList free_;
  std::unique_ptr<Slab> slabs_;
  std::size_t size_ = 0;
};

}  // namespace opal::rcache
