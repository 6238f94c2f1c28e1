// SPDX-License-Identifier: Apache-2.0
// opal/rcache/registrations/lease.hpp — one use of a registration of a cache.  While a lease exists, the cache does not
// deregister the memory.  The cache outlives the lease.
// If all memory of the registration is unmapped meanwhile, the registration becomes invalid: Registration::valid().
// If a part is unmapped, only this part becomes invalid.
// Threads: one thread at a time; another thread than the one that made it may end it.
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

  /// Ends the lease; pointers to the registration are invalid afterwards.  It may deregister the memory.
  void reset() noexcept {
    if (registration_ != nullptr) give_back();
  }

  /// As reset(), if that needs neither the cache's lock nor a deregistration; else returns false and changes nothing.
  /// If the cache withdraws the registration at the same time, the next miss of the cache deregisters it.
  OPAL_EXPORT bool end_at_once() noexcept;

 private:
  friend class Cache;
  Lease(Cache& cache, Registration& registration, PageHold* hold) noexcept
      : cache_(&cache), registration_(&registration), hold_(hold) {}
  OPAL_EXPORT void give_back() noexcept;  // in cache.cpp

  Cache* cache_ = nullptr;
  Registration* registration_ = nullptr;
  PageHold* hold_ = nullptr;  // with policy page_refcount: the pages that this lease uses, owned by it
};

}  // namespace opal::rcache
