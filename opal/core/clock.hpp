// SPDX-License-Identifier: Apache-2.0
// opal/core/clock.hpp — the monotonic clock, deadlines, and what a spinning loop does between two looks.
// All functions are a vDSO call or cheaper and safe from any thread.
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

/// Tells the core that this is a spin loop; takes tens of cycles and gives its sibling the pipeline.
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
  /// Ends `timeout` from now; a negative timeout never ends.
  static Deadline after(std::chrono::nanoseconds timeout) noexcept {
    return timeout.count() < 0 ? never() : Deadline{now_ns() + static_cast<std::uint64_t>(timeout.count())};
  }
  static constexpr Deadline never() noexcept { return Deadline{UINT64_MAX}; }

  [[nodiscard]] bool is_never() const noexcept { return end_ns_ == UINT64_MAX; }
  [[nodiscard]] bool expired() const noexcept { return !is_never() && now_ns() >= end_ns_; }

  /// Time left: zero once expired, nanoseconds::max() when it never ends.
  [[nodiscard]] std::chrono::nanoseconds remaining() const noexcept {
    if (is_never()) return std::chrono::nanoseconds::max();
    const std::uint64_t now = now_ns();
    return std::chrono::nanoseconds{now >= end_ns_ ? 0 : static_cast<std::int64_t>(end_ns_ - now)};
  }

  /// remaining() as poll(2) and epoll_wait(2) want it: milliseconds rounded up, -1 for never.
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
