// SPDX-License-Identifier: Apache-2.0
// runtime/host/signals.hpp — the launcher's signals as descriptor events: blocked in all threads, read in the loop.
#pragma once
#include <functional>

#include "runtime/event/loop.hpp"

namespace runtime::launch {

class Signals {
 public:
  /// Blocks what a launcher handles, before other threads exist (they inherit it), and SIGPIPE.  Signals that its
  /// caller had it ignore (nohup) stay ignored.  Errors: os.
  static Result<Signals> block();

  /// Calls back with the number of each signal that arrives.
  void deliver(event::Loop& loop, std::function<void(int)> callback);

 private:
  explicit Signals(Fd fd) noexcept : fd_(std::move(fd)) {}
  Fd fd_;
  event::Watch watch_;
};

}  // namespace runtime::launch
