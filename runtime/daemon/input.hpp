// SPDX-License-Identifier: Apache-2.0
// runtime/daemon/input.hpp — forwards the launcher's stdin to ranks that cannot inherit the descriptor: a rank of
// another host, all ranks (--stdin all), or a rank that must not read a terminal itself.
//   InputFeeder (launcher)  reads stdin and passes the text to one receiver per host;
//   InputSinks (each host)  passes the text to the InputSink of each of its ranks;
//   InputSink               writes the text into the pipe of one rank, or of a launch agent (agent.hpp).
// The feeder stops reading while a receiver is kWindow bytes or more behind it.  Threads: the loop's thread.
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
  static constexpr std::size_t kWindow = 256U << 10;  ///< bytes read and not taken by the slowest receiver

  using Receiver = std::function<void(const std::string& text)>;
  /// Reads nothing before start().  Each receiver is called with all text read from `fd`; an empty text means the end.
  /// An empty `fd` has no text: start() tells the end.
  InputFeeder(event::Loop& loop, Fd fd, std::vector<Receiver> receivers);
  void start();
  /// Records that the receiver of this index has taken `bytes` more bytes.
  void credit(std::size_t receiver, std::uint64_t bytes);
  /// Removes the receiver of this index.  Requires: not called from inside a receiver.
  void drop(std::size_t receiver);
  /// Tests again whether this process is in the foreground of its terminal; call it after SIGCONT.
  void recheck() { next(); }

 private:
  void read_some();
  void next();
  void pass_on(const std::string& text) const;
  [[nodiscard]] bool has_room() const;
  [[nodiscard]] bool in_foreground() const;

  event::Loop& loop_;
  Fd fd_;
  std::vector<Receiver> receivers_;  // an empty function: dropped
  const bool always_ready_;  // fd_ is a regular file or the like, which epoll refuses and read() never waits for
  const bool terminal_;      // fd_ is a terminal: read it only from its foreground
  std::uint64_t read_ = 0;   // bytes read from fd_ since the start
  std::vector<std::uint64_t> taken_;  // bytes taken since the start, by receiver
  event::Watch readable_;
  event::Timer retry_;  // next test for the foreground
};

class InputSink {
 public:
  /// `taken` runs with the number of bytes that were written into the pipe or dropped because the rank reads no more.
  InputSink(event::Loop& loop, std::function<void(std::uint64_t bytes)> taken)
      : loop_(loop), taken_(std::move(taken)) {}

  /// Makes the pipe; returns its reading end, for the rank.  Errors: os.
  Result<Fd> open();
  /// Queues `text` for the pipe; an empty text is the end of the input.  May be called before open().
  void add(std::string_view text);
  /// True after open() when nothing more is written: the rank has closed its end, or all input has been written.
  [[nodiscard]] bool gone() const noexcept { return opened_ && !pipe_; }

 private:
  void write_some();

  event::Loop& loop_;
  const std::function<void(std::uint64_t)> taken_;
  Fd pipe_;
  std::string pending_;  // not yet written
  bool opened_ = false;
  bool at_end_ = false;  // the end of the input has been added
  event::Watch writable_;
};

/// The sinks of one host.  All get the same text.
class InputSinks {
 public:
  /// `taken` runs with the number of further bytes that the slowest of `count` sinks has taken.  `gone` runs when all
  /// sinks are gone() since ranks read no more; it may run several times.  It need not run when the sinks are gone()
  /// since all input has been written.
  InputSinks(
      event::Loop& loop, std::size_t count, std::function<void(std::uint64_t bytes)> taken,
      std::function<void()> gone = [] {});
  InputSinks(const InputSinks&) = delete;
  InputSinks& operator=(const InputSinks&) = delete;

  /// Opens the next sink; returns the reading end of its pipe.  Requires: at most `count` calls.  Errors: os.
  Result<Fd> open() { return sinks_.at(opened_++).open(); }
  void add(std::string_view text);

 private:
  void credit(std::size_t sink, std::uint64_t bytes);

  const std::function<void(std::uint64_t)> taken_;
  const std::function<void()> gone_;
  std::deque<InputSink> sinks_;
  std::vector<std::uint64_t> taken_by_;  // bytes taken since the start, by sink
  std::uint64_t told_ = 0;               // bytes reported by taken_ since the start
  std::size_t opened_ = 0;               // number of sinks opened
};

}  // namespace runtime::daemon
