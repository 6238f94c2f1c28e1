// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/tcp/connections/reactor.hpp"

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "opal/core/clock.hpp"

namespace opal::btl::tcp {

Result<void> Source::watch(Fd fd) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.ptr = this;
  if (::epoll_ctl(reactor_.epoll_.get(), EPOLL_CTL_ADD, fd.get(), &event) != 0) {
    return Error{Errc::os, errno, "epoll_ctl(tcp)"};
  }
  if (!fd_) enlist();
  fd_ = std::move(fd);
  readable = writable = ended = false;
  return {};
}

Fd Source::release() noexcept {
  ::epoll_ctl(reactor_.epoll_.get(), EPOLL_CTL_DEL, fd_.get(), nullptr);
  if (fd_) withdraw();
  Fd fd = std::move(fd_);
  close();
  return fd;
}

void Source::close() noexcept {
  // close() alone ends the watch only if no other process (a forked child) shares the descriptor.
  if (fd_) {
    ::epoll_ctl(reactor_.epoll_.get(), EPOLL_CTL_DEL, fd_.get(), nullptr);
    withdraw();
  }
  fd_.reset();
  readable = writable = ended = false;
  clear_deadline();
  if (!scheduled_) return;
  scheduled_ = false;
  std::erase(reactor_.ready_, this);
  std::replace(reactor_.running_.begin(), reactor_.running_.end(), this, static_cast<Source*>(nullptr));
}

void Source::enlist() noexcept {
  previous_ = nullptr;
  next_ = std::exchange(reactor_.first_, this);
  if (next_ != nullptr) next_->previous_ = this;
}

void Source::withdraw() noexcept {
  (previous_ != nullptr ? previous_->next_ : reactor_.first_) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
}

void Reactor::close_in_child() noexcept {
  for (Source* source = first_; source != nullptr; source = source->next_) source->fd_.reset();
  first_ = nullptr;
  epoll_.reset();
  timer_.reset();
}

void Source::schedule() noexcept {
  if (scheduled_) return;
  scheduled_ = true;
  reactor_.ready_.push_back(this);
}

void Source::set_deadline(std::uint64_t at_ns) noexcept {
  if (deadline_ns_ == 0) reactor_.waiting_.push_back(this);
  deadline_ns_ = at_ns;
  if (reactor_.timer_at_ns_ == 0 || at_ns < reactor_.timer_at_ns_) reactor_.set_timer(at_ns);
}

void Source::clear_deadline() noexcept {
  if (deadline_ns_ == 0) return;
  deadline_ns_ = 0;
  std::erase(reactor_.waiting_, this);  // the timer may expire in vain, which is cheaper than to set it each time
}

Result<Reactor> Reactor::open() {
  Fd epoll{::epoll_create1(EPOLL_CLOEXEC)};
  if (!epoll) return Error{Errc::os, errno, "epoll_create1(tcp)"};
  Fd timer{::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)};
  if (!timer) return Error{Errc::os, errno, "timerfd_create(tcp)"};
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;  // the timer
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, timer.get(), &event) != 0) {
    return Error{Errc::os, errno, "epoll_ctl(tcp timer)"};
  }
  return Reactor{std::move(epoll), std::move(timer)};
}

void Reactor::set_timer(std::uint64_t at_ns) noexcept {
  timer_at_ns_ = at_ns;
  itimerspec when{};
  when.it_value.tv_sec = static_cast<time_t>(at_ns / 1'000'000'000U);
  when.it_value.tv_nsec = static_cast<long>(at_ns % 1'000'000'000U);
  ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

void Reactor::run_deadlines() noexcept {
  std::uint64_t rings = 0;
  [[maybe_unused]] const ssize_t got = ::read(timer_.get(), &rings, sizeof rings);
  const std::uint64_t now = now_ns();
  timer_rang_ = false;
  timer_at_ns_ = 0;
  // Each call may add and remove sources: start the search again.
  while (true) {
    const auto due = std::find_if(waiting_.begin(), waiting_.end(),
                                  [&](const Source* source) { return source->deadline_ns_ <= now; });
    if (due == waiting_.end()) break;
    Source& source = **due;
    source.clear_deadline();
    source.on_deadline();
  }
  std::uint64_t next = 0;
  for (const Source* source : waiting_) {
    if (next == 0 || source->deadline_ns_ < next) next = source->deadline_ns_;
  }
  set_timer(next);  // 0 stops it
}

void Reactor::collect() noexcept {
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  // No source runs here: it could destroy another one that has an event in `events`.
  for (int i = 0; i < count; ++i) {
    auto* source = static_cast<Source*>(events[static_cast<std::size_t>(i)].data.ptr);
    if (source == nullptr) {
      timer_rang_ = true;
      continue;
    }
    const std::uint32_t what = events[static_cast<std::size_t>(i)].events;
    if ((what & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) source->readable = true;
    if ((what & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) source->ended = true;
    if ((what & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) source->writable = true;
    source->schedule();
  }
}

void Reactor::run() noexcept {
  if (timer_rang_) run_deadlines();
  running_.swap(ready_);
  for (std::size_t i = 0; i < running_.size(); ++i) {
    Source* source = running_[i];
    if (source == nullptr) continue;
    running_[i] = nullptr;
    source->scheduled_ = false;
    source->on_ready();
  }
  running_.clear();
}

}  // namespace opal::btl::tcp
