// SPDX-License-Identifier: Apache-2.0
#include "opal/am/bootstrap/waiter.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

namespace opal::am {
namespace {

/// The calling thread's eventfd.  -1: no descriptor is free; other threads cannot wake this thread.  A forked child
/// makes a new one: it shares the inherited eventfd with the parent, and its reads would consume the parent's wake-ups.
int thread_event() noexcept {
  struct Event {
    Fd fd{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    pid_t process = ::getpid();
  };
  thread_local Event event;
  if (!event.fd || event.process != ::getpid()) event = {};
  return event.fd.get();
}

thread_local int sleepers_without_event = 0;  // Sleepers of the calling thread whose event is -1
constexpr int kSleepWithoutEventMs = 10;      // after it the thread looks for what others could not tell it

}  // namespace

Result<std::unique_ptr<Waiter>> Waiter::create() {
  Fd epoll{::epoll_create1(EPOLL_CLOEXEC)};
  if (!epoll) return Error{Errc::os, errno, "epoll_create1(context)"};
  return std::unique_ptr<Waiter>{new Waiter{std::move(epoll)}};
}

Result<void> Waiter::renew() noexcept {
  const Fd fresh{::epoll_create1(EPOLL_CLOEXEC)};
  if (!fresh) return Error{Errc::os, errno, "epoll_create1(context)"};
  // dup3 keeps the number of the descriptor, which other threads may be using.  A poll() in progress still watches the
  // old epoll, so wake_others() ends it.  The new epoll is empty: callers add their descriptors again.
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
  if (event_ < 0) ++sleepers_without_event;
  const std::lock_guard guard{waiter_.mutex_};
  waiter_.sleepers_.push_back(event_);
  waiter_.sleepers_count_.fetch_add(1, std::memory_order_seq_cst);
}

Waiter::Sleeper::~Sleeper() {
  if (event_ < 0) --sleepers_without_event;
  const std::lock_guard guard{waiter_.mutex_};
  const auto own = std::find(waiter_.sleepers_.begin(), waiter_.sleepers_.end(), event_);
  if (own == waiter_.sleepers_.end()) return;  // take_over() has cleared the list
  waiter_.sleepers_.erase(own);
  waiter_.sleepers_count_.fetch_sub(1, std::memory_order_seq_cst);
}

void Waiter::take_over() noexcept {
  std::construct_at(&mutex_);  // a thread that does not exist in this child may hold it
  sleepers_.clear();
  sleepers_count_ = 0;
}

void Waiter::Sleeper::sleep(const Deadline& deadline) noexcept {
  const int fd = waiter_.epoll_.get();
  Waiter::sleep({&fd, 1}, deadline);
}

void Waiter::sleep(std::span<const int> fds, const Deadline& deadline) noexcept {
  const int own = thread_event();
  std::array<pollfd, kMostWatched + 1> polled;
  const std::size_t count = std::min(fds.size(), kMostWatched);
  polled[0] = {own, POLLIN, 0};
  for (std::size_t i = 0; i < count; ++i) polled[i + 1] = {fds[i], POLLIN, 0};
  int timeout = deadline.poll_timeout_ms();
  if (sleepers_without_event != 0 && (timeout < 0 || timeout > kSleepWithoutEventMs)) timeout = kSleepWithoutEventMs;
  if (::poll(polled.data(), count + 1, timeout) > 0 && (polled[0].revents & POLLIN) != 0) {
    eventfd_t woken = 0;
    (void)::eventfd_read(own, &woken);
  }
}

void Waiter::wake_all() noexcept {
  const std::lock_guard guard{mutex_};
  for (const int event : sleepers_) (void)::eventfd_write(event, 1);
}

}  // namespace opal::am
