// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/tcp/connections/reactor.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace opal::btl::tcp {

Result<void> Source::watch(Fd fd) {
  OPAL_TRY(reactor_.waiting_.watch(fd.get(), EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, this));
  if (!fd_) reactor_.watched_.push_back(this);
  fd_ = std::move(fd);
  readable = writable = ended = false;
  return {};
}

/// close() of the descriptor alone ends the watch only if no other process (a forked child) shares the descriptor.
void Source::unwatch() noexcept {
  reactor_.waiting_.unwatch(fd_.get());
  std::erase(reactor_.watched_, this);
}

Fd Source::release() noexcept {
  if (fd_) unwatch();
  Fd fd = std::move(fd_);
  close();
  return fd;
}

void Source::close() noexcept {
  if (fd_) unwatch();
  fd_.reset();
  readable = writable = ended = false;
  clear_deadline();
  if (!scheduled_) return;
  scheduled_ = false;
  std::erase(reactor_.ready_, this);
  std::ranges::replace(reactor_.running_, this, static_cast<Source*>(nullptr));
}

void Reactor::close_in_child() noexcept {
  for (Source* const source : watched_) source->fd_.reset();
  waiting_.close_in_child();
}

void Source::schedule() noexcept {
  if (scheduled_) return;
  scheduled_ = true;
  reactor_.ready_.push_back(this);
}

void Source::set_deadline(std::uint64_t at_ns) noexcept {
  if (deadline_ns_ == 0) reactor_.deadlines_.push_back(this);
  deadline_ns_ = at_ns;
  Waiting& waiting = reactor_.waiting_;
  if (waiting.clock() == 0 || at_ns < waiting.clock()) waiting.set_clock(at_ns);
}

void Source::clear_deadline() noexcept {
  if (deadline_ns_ == 0) return;
  deadline_ns_ = 0;
  std::erase(reactor_.deadlines_, this);  // the timer may expire without need: cheaper than to set it each time
}

void Reactor::run_deadlines() noexcept {
  const std::uint64_t now = now_ns();
  clock_rang_ = false;
  // Each call may add and remove sources: start the search again.
  while (true) {
    const auto due =
        std::ranges::find_if(deadlines_, [&](const Source* source) { return source->deadline_ns_ <= now; });
    if (due == deadlines_.end()) break;
    Source& source = **due;
    source.clear_deadline();
    source.on_deadline();
  }
  std::uint64_t next = 0;
  for (const Source* source : deadlines_) {
    if (next == 0 || source->deadline_ns_ < next) next = source->deadline_ns_;
  }
  waiting_.set_clock(next);
}

void Reactor::collect() noexcept {
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(waiting_.fd(), events.data(), static_cast<int>(events.size()), 0);
  // No source runs here: it could destroy another one that has an event in `events`.
  for (int i = 0; i < count; ++i) {
    auto* source = static_cast<Source*>(events[static_cast<std::size_t>(i)].data.ptr);
    if (source == nullptr) {
      clock_rang_ = true;
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
  running_.swap(ready_);
  for (std::size_t i = 0; i < running_.size(); ++i) {
    Source* source = running_[i];
    if (source == nullptr) continue;
    running_[i] = nullptr;
    source->scheduled_ = false;
    source->on_ready();
  }
  running_.clear();
  // Deadlines last: a Hello or Welcome that arrived while the program computed is still in time.
  if (clock_rang_) run_deadlines();
}

}  // namespace opal::btl::tcp
