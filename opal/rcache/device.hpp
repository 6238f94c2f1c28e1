// SPDX-License-Identifier: Apache-2.0
// opal/rcache/device.hpp — what registrations are made with: implemented by a transport, called by its cache.
#pragma once
#include "opal/core/result.hpp"
#include "opal/memory/range.hpp"
#include "opal/rcache/registrations/registration.hpp"

namespace opal::rcache {

/// Outlives its cache.  Threads: called by any thread that uses the cache, several at a time, and never with a lock of
/// the cache held, but for invalidated() and invalidated_part().
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

  /// As invalidated(), but only `gone`, a part of the registration, is unmapped.  Refuse access to that part; the rest
  /// stays good for the leases that exist.
  virtual void invalidated_part(const Registration& registration, memory::Range gone) noexcept {
    (void)registration;
    (void)gone;
  }
};

}  // namespace opal::rcache
