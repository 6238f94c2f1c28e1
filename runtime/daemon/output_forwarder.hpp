// SPDX-License-Identifier: Apache-2.0
// runtime/daemon/output_forwarder.hpp — reads the stdout and stderr of the ranks of this host, for the launcher.
// While kWindow bytes or more are not acknowledged by the launcher, it does not read: the pipes fill, the ranks block
// in write(), and memory stays bounded.  Owns the reading ends of the pipes.  Threads: the loop's thread.
#pragma once
#include <functional>
#include <list>

#include "runtime/event/loop.hpp"
#include "runtime/stdio/output.hpp"

namespace runtime::daemon {

class OutputForwarder {
 public:
  static constexpr std::size_t kWindow = 1U << 20;  ///< bytes forwarded and not acknowledged by credit()

  /// Takes what was read; an empty text is the end of the stream.
  using Text = std::function<void(unsigned rank, stdio::Channel channel, std::string text)>;
  OutputForwarder(event::Loop& loop, Text text) : loop_(loop), text_(std::move(text)) {}

  /// Makes the pipe for `channel` of `rank`; returns its writing end, for the rank.  Errors: os.
  Result<Fd> open(unsigned rank, stdio::Channel channel);

  /// The launcher has taken `bytes` more bytes.  Reading starts again below kWindow / 2.
  void credit(std::uint64_t bytes);

  /// Ends a stream whose text is not wanted any more: a rank that writes to it gets SIGPIPE, as in a shell.
  void drop(unsigned rank, stdio::Channel channel);

  /// Forwards what the pipes hold now, whatever kWindow says.  Does not wait for a process that keeps a pipe open.
  void drain();

 private:
  struct Stream {
    unsigned rank;
    stdio::Channel channel;
    Fd fd;
    event::Watch watch;
  };
  bool read_some(Stream& stream);
  void end_of(Stream& stream);

  event::Loop& loop_;
  const Text text_;
  std::list<Stream> streams_;
  std::uint64_t under_way_ = 0;  // bytes forwarded and not acknowledged
  bool paused_ = false;          // the window is full: no pipe is read
};

}  // namespace runtime::daemon
