// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/shared/waiting.hpp"

#include <sys/timerfd.h>

#include <cerrno>

namespace opal::btl {

Result<Waiting> Waiting::create() {
  Fd epoll{::epoll_create1(EPOLL_CLOEXEC)};
  if (!epoll) return Error{Errc::os, errno, "epoll_create1"};
  Fd clock{::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)};
  if (!clock) return Error{Errc::os, errno, "timerfd_create"};
  Waiting waiting{std::move(epoll), std::move(clock)};
  OPAL_TRY(waiting.watch(waiting.clock_.get()));
  return waiting;
}

Result<void> Waiting::watch(int fd, std::uint32_t events, void* user) noexcept {
  epoll_event event{};
  event.events = events;
  event.data.ptr = user;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return Error{Errc::os, errno, "epoll_ctl"};
  return {};
}

void Waiting::unwatch(int fd) noexcept { (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

void Waiting::set_clock(std::uint64_t at_ns) noexcept {
  if (at_ns == at_ns_) return;
  at_ns_ = at_ns;
  itimerspec when{};
  when.it_value.tv_sec = static_cast<time_t>(at_ns / 1'000'000'000U);
  when.it_value.tv_nsec = static_cast<long>(at_ns % 1'000'000'000U);
  (void)::timerfd_settime(clock_.get(), TFD_TIMER_ABSTIME, &when, nullptr);  // clears what has expired, too
}

}  // namespace opal::btl
