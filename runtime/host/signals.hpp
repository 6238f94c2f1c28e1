// SPDX-License-Identifier: Apache-2.0
// runtime/host/signals.hpp — the launcher's signals: blocked in all threads and read from a signalfd in the loop.
#pragma once
#include <functional>

#include "runtime/event/loop.hpp"

namespace runtime::launch {

class Signals {
 public:
  /// Blocks the signals that a launcher handles, and SIGPIPE, SIGXFSZ and SIGTTOU.  Signals that are ignored now
  /// (nohup) stay ignored.  Requires: no other thread exists, since threads inherit the mask.  Errors: os.
  static Result<Signals> block();

  /// From now on runs `callback` in the loop with the number of each signal that arrives.
  void deliver(event::Loop& loop, std::function<void(int)> callback);

 private:
  explicit Signals(Fd fd) noexcept : fd_(std::move(fd)) {}
  Fd fd_;
  event::Watch watch_;
};

}  // namespace runtime::launch
