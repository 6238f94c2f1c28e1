// SPDX-License-Identifier: Apache-2.0
// opal/rcache/device.hpp — registers memory for a cache.  A transport implements it; the cache calls it.
#pragma once
#include "opal/core/result.hpp"
#include "opal/memory/range.hpp"
#include "opal/rcache/registrations/registration.hpp"

namespace opal::rcache {

/// Outlives its cache.  Threads: the cache calls it from any of its users' threads, several at a time.  It holds no
/// lock meanwhile, but for invalidated() and invalidated_part().
class Device {
 public:
  virtual ~Device() = default;

  /// Registers the range with its rights, and sets the cookie.  After the errors no_memory, no_space and limit_reached
  /// the cache deregisters an idle registration and tries again; get() returns other errors.
  virtual Result<void> register_memory(Registration& registration) noexcept = 0;

  /// Undoes register_memory.  Called once for each success.
  virtual void deregister_memory(Registration& registration) noexcept = 0;

  /// The registration has become invalid: refuse accesses with its generation from now on.  Called within the event
  /// that unmaps the memory, with the cache's lock held: must not block, allocate, or call the cache.
  virtual void invalidated(const Registration& registration) noexcept { (void)registration; }

  /// As invalidated(), but only `gone`, a part of the registration, is unmapped.  Refuse accesses to that part;
  /// existing leases may use the remaining part.
  virtual void invalidated_part(const Registration& registration, memory::Range gone) noexcept {
    (void)registration;
    (void)gone;
  }
};

}  // namespace opal::rcache
