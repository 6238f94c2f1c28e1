// SPDX-License-Identifier: Apache-2.0
#include "runtime/stdio/terminal_input.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace runtime::stdio {
namespace {

constexpr std::chrono::milliseconds kForegroundCheck{500};

}  // namespace

TerminalInput::TerminalInput(event::Loop& loop, int terminal, Fd pipe)
    : loop_(loop), terminal_(terminal), pipe_(std::move(pipe)) {
  ::fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);
  readable_ = loop_.on_readable(terminal_, [this] { read_terminal(); });
  writable_ = loop_.on_writable(pipe_.get(), [this] { write_pipe(); });
  update();
}

/// Sets the watches to what is wanted now: a full pipe stops the reading, the background too.
void TerminalInput::update() {
  readable_.pause();
  writable_.pause();
  if (!pipe_) return;
  if (!pending_.empty()) return writable_.resume();
  if (at_end_) return close();
  if (::tcgetpgrp(terminal_) == ::getpgrp()) return readable_.resume();
  // A shell that moves a running job to the foreground tells it nothing.
  retry_ = loop_.after(kForegroundCheck, [this] { update(); });
}

void TerminalInput::read_terminal() {
  if (::tcgetpgrp(terminal_) != ::getpgrp()) return update();
  std::array<char, 4096> buffer;
  const ssize_t size = ::read(terminal_, buffer.data(), buffer.size());
  if (size > 0) pending_.append(buffer.data(), static_cast<std::size_t>(size));
  if (size == 0 || (size < 0 && errno != EINTR && errno != EAGAIN)) at_end_ = true;
  update();
}

void TerminalInput::write_pipe() {
  const ssize_t size = ::write(pipe_.get(), pending_.data(), pending_.size());
  if (size > 0) pending_.erase(0, static_cast<std::size_t>(size));
  if (size < 0 && errno != EINTR && errno != EAGAIN) return close();  // rank 0 reads no more
  update();
}

void TerminalInput::close() {
  pending_.clear();
  readable_ = {};
  writable_ = {};
  pipe_.reset();
}

}  // namespace runtime::stdio
