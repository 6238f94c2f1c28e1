// SPDX-License-Identifier: Apache-2.0
// opal/rcache/grdma.hpp — the registration cache for local memory of one device.
// Lookup policy "containing": any valid registration that contains the range with enough rights serves it; overlapping
// ones coexist.  If one contains the range but lacks rights, a new one of its range takes the union of both rights.
// A registration without users is idle: undone at once (leave_pinned off) or kept in order of last use (on).  Idle ones
// are undone oldest first, one at a time, when a limit is reached or the device has no room, until the new one fits.
// Owns: every registration.  Threads: safe from any thread.  Destroy it when nothing is borrowed any more.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "opal/core/export.hpp"
#include "opal/rcache/cache.hpp"
#include "opal/rcache/config.hpp"
#include "opal/rcache/interval_index.hpp"
#include "opal/rcache/registration_list.hpp"

namespace opal::rcache {

class OPAL_EXPORT Grdma final : public Cache {
 public:
  /// Ranges are rounded to multiples of `granularity`, a power of two: 0 takes the machine's page size, 1 rounds
  /// nothing.
  explicit Grdma(Device& device, const GrdmaConfig& config = {}, std::size_t granularity = 0) noexcept;
  ~Grdma() override;

  Result<Registration*> get(const void* address, std::size_t length, Access access) noexcept override;
  void put(Registration* registration) noexcept override;
  std::size_t invalidate(const void* address, std::size_t length) noexcept override;
  void flush() noexcept override;
  [[nodiscard]] Statistics statistics() const noexcept override;

  [[nodiscard]] const GrdmaConfig& config() const noexcept { return config_; }

 private:
  /// What a new registration is to cover.
  struct Request {
    std::uintptr_t begin;
    std::uintptr_t end;
    Access access;
  };
  using Owned = std::unique_ptr<Registration>;

  [[nodiscard]] Result<Request> rounded(const void* address, std::size_t length, Access access) const noexcept;
  Result<Registration*> register_new(const Request& request) noexcept;
  Result<Registration*> register_exactly(const Request& request) noexcept;
  Result<Owned> make_pending(const Request& request) noexcept;
  Result<void> register_with_device(Registration& registration) noexcept;
  Result<void> make_room(std::uint64_t releases_seen, const Error& otherwise) noexcept;

  void borrow_locked(Registration& registration) noexcept;
  void take_out_locked(Registration& idle) noexcept;
  Owned condemn_locked(Registration& registration) noexcept;
  [[nodiscard]] bool within_limits_locked(std::size_t more_bytes) const noexcept;
  void release(Owned condemned) noexcept;
  void give_up(Owned pending) noexcept;
  void release_dead() noexcept;

  Device& device_;
  const GrdmaConfig config_;
  const std::size_t granularity_;

  mutable std::mutex mutex_;
  std::condition_variable released_;  // signalled after each deregistration
  IntervalIndex index_;               // valid registrations, in use or idle
  RegistrationList idle_;             // in the index, no users; least recently used first
  RegistrationList pending_;          // being registered by some thread right now
  RegistrationList dead_;             // no users, not in the index: waiting to be undone outside of an event
  RegistrationList orphans_;          // invalid, but in use: undone by the last put()
  std::atomic<std::uint64_t> next_generation_{2};
  std::uint64_t releases_ = 0;   // deregistrations so far: tells a waiter that room may have appeared
  std::uint64_t releasing_ = 0;  // deregistrations under way
  Statistics statistics_;
};

}  // namespace opal::rcache
