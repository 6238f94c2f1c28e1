// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/waiting.hpp — the one descriptor that a sleeper polls: an epoll descriptor over the descriptors of a
// transport and a timerfd.  Owned by the module.  Threads: as the module.
#pragma once
#include <sys/epoll.h>

#include <cstdint>

#include "opal/core/result.hpp"
#include "opal/core/system/fd.hpp"

namespace opal::btl {

class Waiting {
 public:
  static Result<Waiting> create();
  /// Watches a borrowed descriptor for `events` of epoll_ctl(2).  `user`: what epoll_wait(2) on fd() reports; that of
  /// the clock is null.  Errors: os.
  Result<void> watch(int fd, std::uint32_t events = EPOLLIN, void* user = nullptr) noexcept;
  /// Ends watch().  The owner calls it before it closes the descriptor: a forked child may hold a copy, with which the
  /// kernel would go on reporting it.
  void unwatch(int fd) noexcept;
  /// Makes fd() readable at `at_ns` of now_ns(); 0: never.
  void set_clock(std::uint64_t at_ns) noexcept;
  [[nodiscard]] std::uint64_t clock() const noexcept { return at_ns_; }  ///< latest argument of set_clock()
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

}  // namespace opal::btl
