// SPDX-License-Identifier: Apache-2.0
// opal/rcache/cache.hpp — keeps registrations of memory between a device, where they are expensive, and its users.
// get() and put() come in pairs; Lease does it by scope.  Between them the registration stays with the device, whatever
// happens; it may become invalid, though, when its memory is unmapped under it.
// Threads: everything is safe from any thread.  No device function is called, and nothing is allocated or freed, while
// the cache holds a lock: a device may call malloc, malloc may munmap, and that may report to invalidate().
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "opal/core/result.hpp"
#include "opal/rcache/registration.hpp"

namespace opal::rcache {

/// The device that registrations are made with.  Implemented by a transport; outlives its cache.
class Device {
 public:
  virtual ~Device() = default;

  /// Makes the registration's range known with its rights and fills its cookie.  no_memory, no_space and limit_reached
  /// mean "might work after deregistering something" and make the cache evict; other errors go to the user.
  virtual Result<void> register_memory(Registration& registration) noexcept = 0;

  /// Undoes register_memory.  Called once for each success.
  virtual void deregister_memory(Registration& registration) noexcept = 0;

  /// The registration has just become invalid: refuse its generation from now on.  Called from within the event that
  /// unmaps the memory, with the cache's lock held: must not block, allocate, or call the cache.
  virtual void invalidated(const Registration& registration) noexcept { (void)registration; }
};

/// A number of registrations and their bytes.
struct Amount {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
};

struct Statistics {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;         ///< get() calls that had to ask the device
  std::uint64_t evictions = 0;      ///< idle registrations undone to make room
  std::uint64_t invalidations = 0;  ///< registrations whose memory went away
  std::uint64_t failures = 0;       ///< get() calls that returned an error
  std::uint64_t register_ns = 0;    ///< time spent in Device::register_memory
  Amount registered;                ///< known to the device: in use, idle, or invalid and not undone yet
  Amount idle;                      ///< of those, kept for later use only
};

class Lease;

class Cache {
 public:
  Cache() noexcept = default;
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;
  virtual ~Cache() = default;

  /// A valid registration that contains [address, +length) with at least these rights; put() it back.
  /// Errors: invalid_argument (empty or wrapping range; unmapped while being registered), limit_reached (no room and
  /// nothing idle to evict), no_memory (bookkeeping), and what the device says.
  virtual Result<Registration*> get(const void* address, std::size_t length, Access access) noexcept = 0;

  /// Ends one get().  The pointer is dead after this.
  virtual void put(Registration* registration) noexcept = 0;

  /// The memory [address, +length) is being unmapped or replaced: every registration that shares a page with it becomes
  /// invalid at once.  Safe inside an unmap hook: only links and flags change here, the device is told later by a
  /// get(), put() or flush().  Returns how many became invalid.
  virtual std::size_t invalidate(const void* address, std::size_t length) noexcept = 0;

  /// Undoes everything that is not in use.
  virtual void flush() noexcept = 0;

  [[nodiscard]] virtual Statistics statistics() const noexcept = 0;

  /// get() for the life of a Lease.
  Result<Lease> lease(const void* address, std::size_t length, Access access) noexcept;
};

/// Borrows a registration and gives it back at the end of its scope.
class Lease {
 public:
  Lease() noexcept = default;
  Lease(Cache& cache, Registration& registration) noexcept : cache_(&cache), registration_(&registration) {}
  Lease(Lease&& other) noexcept : cache_(other.cache_), registration_(std::exchange(other.registration_, nullptr)) {}
  Lease& operator=(Lease&& other) noexcept {
    if (this != &other) {
      reset();
      cache_ = other.cache_;
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

  /// Keeps the registration borrowed beyond the scope: the caller will put() it.
  [[nodiscard]] Registration* release() noexcept { return std::exchange(registration_, nullptr); }

  void reset() noexcept {
    if (registration_ != nullptr) cache_->put(std::exchange(registration_, nullptr));
  }

 private:
  Cache* cache_ = nullptr;
  Registration* registration_ = nullptr;
};

inline Result<Lease> Cache::lease(const void* address, std::size_t length, Access access) noexcept {
  OPAL_TRY_ASSIGN(Registration* const registration, get(address, length, access));
  return Lease{*this, *registration};
}

/// Bytes of the first piece of [address, +length) when pieces end at multiples of `max_chunk`, a power of two (0: one
/// piece).  Transfers that start anywhere in a buffer then share the registrations of its later pieces.
constexpr std::size_t first_chunk(std::uintptr_t address, std::size_t length, std::size_t max_chunk) noexcept {
  return max_chunk == 0 ? length : std::min(length, max_chunk - (address & (max_chunk - 1)));
}

}  // namespace opal::rcache
