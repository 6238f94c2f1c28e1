// SPDX-License-Identifier: Apache-2.0
// runtime/daemon/input.hpp — the launcher's stdin on its way to rank 0 of another host.
// The feeder, in the launcher, reads no further than kWindow bytes ahead of what the rank's pipe has taken; the sink,
// in the rank's daemon, writes the pipe and says how much that was.  Threads: the loop's thread.
#pragma once
#include <functional>
#include <string>

#include "runtime/event/loop.hpp"

namespace runtime::daemon {

class InputFeeder {
 public:
  static constexpr std::size_t kWindow = 256U << 10;  ///< bytes under way

  /// Reads `fd` when start() is called; `send` gets what was read, and at the end an empty text.
  InputFeeder(event::Loop& loop, Fd fd, std::function<void(std::string text)> send);
  void start();
  /// The rank has taken so many bytes.
  void credit(std::uint64_t bytes);

 private:
  void read_some();
  void next();

  event::Loop& loop_;
  Fd fd_;
  const std::function<void(std::string)> send_;
  const bool always_ready_;  // nothing to wait for, which epoll refuses to say
  std::size_t under_way_ = 0;
  event::Watch readable_;
};

class InputSink {
 public:
  /// `taken` is told of bytes that the pipe has taken, or that nobody will read any more.
  InputSink(event::Loop& loop, std::function<void(std::uint64_t bytes)> taken)
      : loop_(loop), taken_(std::move(taken)) {}

  /// Makes the pipe; returns the end for the rank to read.  Errors: os.
  Result<Fd> open();
  /// Empty: the end of the input.
  void add(std::string_view text);

 private:
  void write_some();

  event::Loop& loop_;
  const std::function<void(std::uint64_t)> taken_;
  Fd pipe_;
  std::string pending_;
  bool at_end_ = false;
  event::Watch writable_;
};

}  // namespace runtime::daemon
