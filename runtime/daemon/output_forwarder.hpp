// SPDX-License-Identifier: Apache-2.0
// runtime/daemon/output_forwarder.hpp — what the ranks of this host print, on its way to the launcher.
// Reads no further than kWindow bytes ahead of what the launcher has taken: pipes fill, ranks wait, memory does not
// grow.  Threads: the loop's thread.
#pragma once
#include <functional>
#include <list>

#include "runtime/event/loop.hpp"
#include "runtime/stdio/output.hpp"

namespace runtime::daemon {

class OutputForwarder {
 public:
  static constexpr std::size_t kWindow = 1U << 20;  ///< bytes in flight

  /// Empty at the end of the stream.
  using Text = std::function<void(unsigned rank, stdio::Channel channel, std::string text)>;
  OutputForwarder(event::Loop& loop, Text text) : loop_(loop), text_(std::move(text)) {}

  /// Makes the pipe; returns the end for the rank to write to.  Errors: os.
  Result<Fd> open(unsigned rank, stdio::Channel channel);

  /// The launcher has taken so many bytes.
  void credit(std::uint64_t bytes);

  /// Forwards what the pipes still hold, without waiting for a process that keeps one open.
  void drain();

 private:
  struct Stream {
    unsigned rank;
    stdio::Channel channel;
    Fd fd;
    event::Watch watch;
  };
  bool read_some(Stream& stream);

  event::Loop& loop_;
  const Text text_;
  std::list<Stream> streams_;
  std::uint64_t under_way_ = 0;
  bool paused_ = false;
};

}  // namespace runtime::daemon
