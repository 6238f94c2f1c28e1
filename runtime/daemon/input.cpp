// SPDX-License-Identifier: Apache-2.0
#include "runtime/daemon/input.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace runtime::daemon {
namespace {

constexpr std::size_t kReadSize = 1U << 16;
constexpr std::chrono::milliseconds kForegroundCheck{500};

/// True for regular files and devices such as /dev/null: epoll refuses them, since a read never waits.
bool always_ready(int fd) {
  const Fd epoll{::epoll_create1(EPOLL_CLOEXEC)};
  epoll_event event{};
  return epoll && ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) != 0 && errno == EPERM;
}

}  // namespace

InputFeeder::InputFeeder(event::Loop& loop, Fd fd, std::vector<Receiver> receivers)
    : loop_(loop),
      fd_(std::move(fd)),
      receivers_(std::move(receivers)),
      always_ready_(always_ready(fd_.get())),
      terminal_(::isatty(fd_.get()) == 1),
      taken_(receivers_.size()) {}

bool InputFeeder::has_room() const {
  for (std::size_t i = 0; i < receivers_.size(); ++i) {
    if (receivers_[i] && read_ - taken_[i] >= kWindow) return false;
  }
  return true;
}

bool InputFeeder::in_foreground() const { return !terminal_ || ::tcgetpgrp(fd_.get()) == ::getpgrp(); }

void InputFeeder::start() {
  if (!fd_) return pass_on({});
  if (!always_ready_) readable_ = loop_.on_readable(fd_.get(), [this] { read_some(); });
  next();
}

void InputFeeder::next() {
  if (!fd_) return;
  const bool foreground = in_foreground();
  const bool room = foreground && has_room();
  // A shell that moves a running job to the foreground sends no signal, so the terminal is polled.
  if (!foreground) retry_ = loop_.after(kForegroundCheck, [this] { next(); });
  if (!always_ready_) return room ? readable_.resume() : readable_.pause();
  if (room) loop_.post([this] { read_some(); });
}

void InputFeeder::read_some() {
  if (!fd_ || !has_room()) return;
  if (!in_foreground()) return next();
  std::string text(kReadSize, '\0');
  const ssize_t size = ::read(fd_.get(), text.data(), text.size());
  if (size < 0 && (errno == EINTR || errno == EAGAIN)) return next();
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  if (text.empty()) {
    readable_ = {};
    fd_.reset();
  }
  read_ += text.size();
  pass_on(text);
  next();
}

void InputFeeder::pass_on(const std::string& text) const {
  for (const Receiver& receiver : receivers_) {
    if (receiver) receiver(text);
  }
}

void InputFeeder::credit(std::size_t receiver, std::uint64_t bytes) {
  const bool was_full = !has_room();
  std::uint64_t& taken = taken_.at(receiver);
  taken += std::min(bytes, read_ - taken);
  if (was_full) next();
}

void InputFeeder::drop(std::size_t receiver) {
  const bool was_full = !has_room();
  receivers_.at(receiver) = nullptr;
  if (std::ranges::none_of(receivers_, [](const Receiver& each) { return each != nullptr; })) {
    readable_ = {};
    fd_.reset();
  }
  if (was_full) next();
}

Result<Fd> InputSink::open() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Error{Errc::os, errno, "pipe2(stdin of a rank)"};
  pipe_.reset(ends[1]);
  opened_ = true;
  ::fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);
  writable_ = loop_.on_writable(pipe_.get(), [this] { write_some(); });
  return Fd{ends[0]};
}

void InputSink::add(std::string_view text) {
  at_end_ = at_end_ || text.empty();
  if (gone()) return taken_(text.size());
  pending_ += text;
  if (opened_) writable_.resume();
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

InputSinks::InputSinks(event::Loop& loop, std::size_t count, std::function<void(std::uint64_t)> taken,
                       std::function<void()> gone)
    : taken_(std::move(taken)), gone_(std::move(gone)), taken_by_(count) {
  for (std::size_t sink = 0; sink < count; ++sink) {
    sinks_.emplace_back(loop, [this, sink](std::uint64_t bytes) { credit(sink, bytes); });
  }
}

void InputSinks::add(std::string_view text) {
  for (InputSink& sink : sinks_) sink.add(text);
}

void InputSinks::credit(std::size_t sink, std::uint64_t bytes) {
  taken_by_[sink] += bytes;
  const std::uint64_t slowest = *std::ranges::min_element(taken_by_);
  if (slowest != told_) taken_(slowest - std::exchange(told_, slowest));
  if (std::ranges::all_of(sinks_, [](const InputSink& each) { return each.gone(); })) gone_();
}

}  // namespace runtime::daemon
