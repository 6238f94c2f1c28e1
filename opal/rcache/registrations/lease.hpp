// SPDX-License-Identifier: Apache-2.0
// opal/rcache/registrations/lease.hpp — a registration borrowed from its cache until the end of a scope.
// While it exists the registration stays with the device.  It becomes invalid when all memory of the registration is
// unmapped.  When a part is unmapped, that part is refused and the rest stays good.
// Threads: one owner at a time; it may end on another thread than it began.
#pragma once
#include <utility>

#include "opal/core/export.hpp"
#include "opal/rcache/registrations/registration.hpp"

namespace opal::rcache {

class Cache;

class Lease {
 public:
  Lease() noexcept = default;
  Lease(Lease&& other) noexcept
      : cache_(other.cache_), registration_(std::exchange(other.registration_, nullptr)), hold_(other.hold_) {}
  Lease& operator=(Lease&& other) noexcept {
    if (this != &other) {
      reset();
      cache_ = other.cache_;
      hold_ = other.hold_;
      registration_ = std::exchange(other.registration_, nullptr);
    }
    return *this;
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() { reset(); }

  [[nodiscard]] Registration* get() const noexcept { return registration_; }  ///< null when empty
  Registration* operator->() const noexcept { return registration_; }
  Registration& operator*() const noexcept { return *registration_; }
  explicit operator bool() const noexcept { return registration_ != nullptr; }

  /// Gives the registration back; the pointer is dead after this.
  void reset() noexcept {
    if (registration_ != nullptr) give_back();
  }

  /// reset(), if that needs no lock and cannot undo a registration now; else false, and nothing has happened.  What is
  /// withdrawn at this very moment is undone by the next registration.
  OPAL_EXPORT bool end_at_once() noexcept;

 private:
  friend class Cache;
  Lease(Cache& cache, Registration& registration, PageHold* hold) noexcept
      : cache_(&cache), registration_(&registration), hold_(hold) {}
  OPAL_EXPORT void give_back() noexcept;  // in cache.cpp

  Cache* cache_ = nullptr;
  Registration* registration_ = nullptr;
  PageHold* hold_ = nullptr;  // with policy page_refcount: the pages that it uses
};

}  // namespace opal::rcache
