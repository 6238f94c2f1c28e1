// SPDX-License-Identifier: Apache-2.0
// opal/core/clock.hpp — the monotonic clock, deadlines, and the pause instruction of spin loops.
// Cost: at most one vDSO call each.  Threads: safe from any thread.
#pragma once
#include <time.h>

#include <chrono>
#include <cstdint>

namespace opal {

/// Nanoseconds of the monotonic clock; comparable between the processes of one host.
inline std::uint64_t now_ns() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

/// The pause instruction of spin loops: takes tens of cycles, in which the other hardware thread has the core.
inline void cpu_relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// A point in time after which waiting ends.
class Deadline {
 public:
  /// A deadline `timeout` from now; a negative timeout means never().
  static Deadline after(std::chrono::nanoseconds timeout) noexcept {
    return timeout.count() < 0 ? never() : Deadline{now_ns() + static_cast<std::uint64_t>(timeout.count())};
  }
  static constexpr Deadline never() noexcept { return Deadline{UINT64_MAX}; }

  friend bool operator==(Deadline, Deadline) = default;
  [[nodiscard]] bool is_never() const noexcept { return end_ns_ == UINT64_MAX; }
  [[nodiscard]] bool expired() const noexcept { return !is_never() && now_ns() >= end_ns_; }

  /// Time left: zero once expired, nanoseconds::max() for never().
  [[nodiscard]] std::chrono::nanoseconds remaining() const noexcept {
    if (is_never()) return std::chrono::nanoseconds::max();
    const std::uint64_t now = now_ns();
    return std::chrono::nanoseconds{now >= end_ns_ ? 0 : static_cast<std::int64_t>(end_ns_ - now)};
  }

  /// remaining() as an argument of poll(2) and epoll_wait(2): milliseconds, rounded up, at most INT32_MAX; -1 for
  /// never().
  [[nodiscard]] int poll_timeout_ms() const noexcept {
    if (is_never()) return -1;
    const std::int64_t ms = (remaining().count() + 999'999) / 1'000'000;
    return ms > INT32_MAX ? INT32_MAX : static_cast<int>(ms);
  }

 private:
  explicit constexpr Deadline(std::uint64_t end_ns) noexcept : end_ns_(end_ns) {}
  std::uint64_t end_ns_;
};

}  // namespace opal
