// SPDX-License-Identifier: Apache-2.0
#include "runtime/daemon/input.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace runtime::daemon {
namespace {

constexpr std::size_t kReadSize = 1U << 16;

/// Files, and devices such as /dev/null, are always ready: epoll refuses them.
bool always_ready(int fd) {
  const Fd epoll{::epoll_create1(EPOLL_CLOEXEC)};
  epoll_event event{};
  return epoll && ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) != 0 && errno == EPERM;
}

}  // namespace

InputFeeder::InputFeeder(event::Loop& loop, Fd fd, std::function<void(std::string)> send)
    : loop_(loop), fd_(std::move(fd)), send_(std::move(send)), always_ready_(always_ready(fd_.get())) {}

void InputFeeder::start() {
  if (!always_ready_ && fd_) readable_ = loop_.on_readable(fd_.get(), [this] { read_some(); });
  next();
}

void InputFeeder::next() {
  if (!fd_) return;
  const bool room = under_way_ < kWindow;
  if (!always_ready_) return room ? readable_.resume() : readable_.pause();
  if (room) loop_.post([this] { read_some(); });
}

void InputFeeder::read_some() {
  if (!fd_ || under_way_ >= kWindow) return;
  std::string text(kReadSize, '\0');
  const ssize_t size = ::read(fd_.get(), text.data(), text.size());
  if (size < 0 && (errno == EINTR || errno == EAGAIN)) return next();
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  if (text.empty()) {
    readable_ = {};
    fd_.reset();
  }
  under_way_ += text.size();
  send_(std::move(text));
  next();
}

void InputFeeder::credit(std::uint64_t bytes) {
  const bool was_full = under_way_ >= kWindow;
  under_way_ -= std::min<std::uint64_t>(bytes, under_way_);
  if (was_full) next();
}

Result<Fd> InputSink::open() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Error{Errc::os, errno, "pipe2(stdin of rank 0)"};
  pipe_.reset(ends[1]);
  ::fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);
  writable_ = loop_.on_writable(pipe_.get(), [this] { write_some(); });
  return Fd{ends[0]};
}

void InputSink::add(std::string_view text) {
  at_end_ = at_end_ || text.empty();
  if (!pipe_) return taken_(text.size());
  pending_ += text;
  writable_.resume();
}

void InputSink::write_some() {
  const ssize_t size = pending_.empty() ? 0 : ::write(pipe_.get(), pending_.data(), pending_.size());
  if (size < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (size < 0) {  // the rank reads no more
    const std::size_t dropped = pending_.size();
    pending_.clear();
    writable_ = {};
    pipe_.reset();
    return taken_(dropped);
  }
  pending_.erase(0, static_cast<std::size_t>(size));
  if (size > 0) taken_(static_cast<std::uint64_t>(size));
  if (!pending_.empty()) return;
  writable_.pause();
  if (!at_end_) return;
  writable_ = {};
  pipe_.reset();
}

}  // namespace runtime::daemon
