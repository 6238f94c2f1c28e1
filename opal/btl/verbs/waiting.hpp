// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/waiting.hpp — the one descriptor that a sleeper polls: an epoll descriptor over the device's
// completion and event channels, the connection manager's event channel, and a timerfd.  Owned by the module.
#pragma once
#include <cstdint>

#include "opal/core/result.hpp"
#include "opal/core/system/fd.hpp"

namespace opal::btl::verbs {

class Waiting {
 public:
  static Result<Waiting> create();
  /// Watches a borrowed descriptor.  Errors: os.
  Result<void> watch(int fd) noexcept;
  /// Makes fd() readable at `at_ns` of now_ns(); 0: never.
  void set_clock(std::uint64_t at_ns) noexcept;
  [[nodiscard]] int fd() const noexcept { return epoll_.get(); }
  void close_in_child() noexcept {
    epoll_.reset();
    clock_.reset();
  }

 private:
  Waiting(Fd epoll, Fd clock) noexcept : epoll_(std::move(epoll)), clock_(std::move(clock)) {}
  Fd epoll_;
  Fd clock_;
  std::uint64_t at_ns_ = 0;
};

}  // namespace opal::btl::verbs
