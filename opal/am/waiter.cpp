// SPDX-License-Identifier: Apache-2.0
#include "opal/am/waiter.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace opal::am {
namespace {

/// The calling thread's eventfd.  -1 (no descriptors left) only means that others cannot wake us early.
int thread_event() noexcept {
  thread_local const Fd event{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  return event.get();
}

}  // namespace

Result<std::unique_ptr<Waiter>> Waiter::create() {
  Fd epoll{::epoll_create1(EPOLL_CLOEXEC)};
  if (!epoll) return Error{Errc::os, errno, "epoll_create1(context)"};
  return std::unique_ptr<Waiter>{new Waiter{std::move(epoll)}};
}

Result<void> Waiter::renew() noexcept {
  const Fd fresh{::epoll_create1(EPOLL_CLOEXEC)};
  if (!fresh) return Error{Errc::os, errno, "epoll_create1(context)"};
  // By its number, since others may be reading that, or be asleep on it.
  if (::dup3(fresh.get(), epoll_.get(), O_CLOEXEC) < 0) return Error{Errc::os, errno, "dup3(context)"};
  wake_others();
  return {};
}

Result<void> Waiter::add(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return Error{Errc::os, errno, "epoll_ctl(context)"};
  return {};
}

void Waiter::remove(int fd) noexcept { ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

Waiter::Sleeper::Sleeper(Waiter& waiter) noexcept : waiter_(waiter), event_(thread_event()) {
  const std::lock_guard guard{waiter_.mutex_};
  waiter_.sleepers_.push_back(event_);
  waiter_.sleepers_count_.fetch_add(1, std::memory_order_seq_cst);
}

Waiter::Sleeper::~Sleeper() {
  const std::lock_guard guard{waiter_.mutex_};
  waiter_.sleepers_.erase(std::find(waiter_.sleepers_.begin(), waiter_.sleepers_.end(), event_));
  waiter_.sleepers_count_.fetch_sub(1, std::memory_order_seq_cst);
}

void Waiter::Sleeper::sleep(const Deadline& deadline) noexcept {
  pollfd fds[2] = {{waiter_.epoll_.get(), POLLIN, 0}, {event_, POLLIN, 0}};
  if (::poll(fds, 2, deadline.poll_timeout_ms()) > 0 && (fds[1].revents & POLLIN) != 0) {
    eventfd_t count = 0;
    (void)::eventfd_read(event_, &count);
  }
}

void Waiter::wake_all() noexcept {
  const std::lock_guard guard{mutex_};
  for (const int event : sleepers_) (void)::eventfd_write(event, 1);
}

}  // namespace opal::am
