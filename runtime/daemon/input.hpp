// SPDX-License-Identifier: Apache-2.0
// runtime/daemon/input.hpp — the launcher's stdin on its way to ranks that cannot be handed the descriptor itself: one
// of another host, all of them, or one that is not to have a terminal.  The feeder, in the launcher, reads no further
// than kWindow bytes ahead of what the slowest receiver has taken; a receiver is the group of sinks of one host, each
// of which writes the pipe of one rank. Threads: the loop's thread.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "runtime/event/loop.hpp"

namespace runtime::daemon {

class InputFeeder {
 public:
  static constexpr std::size_t kWindow = 256U << 10;  ///< bytes in flight

  using Receiver = std::function<void(const std::string& text)>;
  /// Each receiver gets all that is read from `fd`, and at the end an empty text, from start() on.
  InputFeeder(event::Loop& loop, Fd fd, std::vector<Receiver> receivers);
  void start();
  /// The receiver of this index has taken so many bytes.
  void credit(std::size_t receiver, std::uint64_t bytes);
  /// That receiver is gone: it gets nothing more, and is not waited for.  Not from inside of a receiver.
  void drop(std::size_t receiver);
  /// The launcher was continued: it may be in its terminal's foreground again.
  void recheck() { next(); }

 private:
  void read_some();
  void next();
  [[nodiscard]] bool has_room() const;
  [[nodiscard]] bool in_foreground() const;

  event::Loop& loop_;
  Fd fd_;
  std::vector<Receiver> receivers_;  // empty: gone
  const bool always_ready_;          // nothing to wait for, which epoll refuses to say
  const bool terminal_;
  std::uint64_t read_ = 0;            // bytes, ever
  std::vector<std::uint64_t> taken_;  // the same, by each receiver
  event::Watch readable_;
  event::Timer retry_;
};

class InputSink {
 public:
  /// `taken` is told of bytes that the pipe has taken, or that will never be read.
  InputSink(event::Loop& loop, std::function<void(std::uint64_t bytes)> taken)
      : loop_(loop), taken_(std::move(taken)) {}

  /// Makes the pipe; returns the end for the rank to read.  Errors: os.
  Result<Fd> open();
  /// Empty: the end of the input.  What comes before open() is kept for it.
  void add(std::string_view text);
  /// The rank reads no more.
  [[nodiscard]] bool gone() const noexcept { return opened_ && !pipe_; }

 private:
  void write_some();

  event::Loop& loop_;
  const std::function<void(std::uint64_t)> taken_;
  Fd pipe_;
  std::string pending_;
  bool opened_ = false;
  bool at_end_ = false;
  event::Watch writable_;
};

/// The sinks of one host: all get the same, and what the slowest has taken counts.
class InputSinks {
 public:
  /// `gone`: no rank reads any more.
  InputSinks(
      event::Loop& loop, std::size_t count, std::function<void(std::uint64_t bytes)> taken,
      std::function<void()> gone = [] {});
  InputSinks(const InputSinks&) = delete;
  InputSinks& operator=(const InputSinks&) = delete;

  /// The pipe of the next one of `count` ranks.  Errors: os.
  Result<Fd> open() { return sinks_.at(opened_++).open(); }
  void add(std::string_view text);

 private:
  void credit(std::size_t sink, std::uint64_t bytes);

  const std::function<void(std::uint64_t)> taken_;
  const std::function<void()> gone_;
  std::deque<InputSink> sinks_;
  std::vector<std::uint64_t> taken_by_;  // as sinks_
  std::uint64_t told_ = 0;               // bytes of which the owner knows
  std::size_t opened_ = 0;
};

}  // namespace runtime::daemon
