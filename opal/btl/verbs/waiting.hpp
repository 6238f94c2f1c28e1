// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/waiting.hpp — the one descriptor that a sleeper waits on: the device's completions and events, the
// connection manager's events, and a clock for what must happen at some time.
#pragma once
#include <cstdint>

#include "opal/core/result.hpp"
#include "opal/core/system/fd.hpp"

namespace opal::btl::verbs {

class Waiting {
 public:
  static Result<Waiting> create();
  /// Watches a descriptor that stays its owner's.
  Result<void> watch(int fd) noexcept;
  /// Rings at `at_ns` of now_ns(); 0: never.
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
