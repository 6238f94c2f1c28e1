// SPDX-License-Identifier: Apache-2.0
// runtime/stdio/writer.hpp — writes to one output of the launcher from a thread of its own, so that a slow terminal or
// a full pipe stops the ranks that print, and nothing else of the launcher. Threads: owned and called by the loop's
// thread; `on_drained` runs there too.
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/event/loop.hpp"

namespace runtime::stdio {

class Writer {
 public:
  static constexpr std::size_t kHighWater = 1U << 20;  ///< bytes queued from which on full() says so
  static constexpr std::size_t kLowWater = 1U << 18;   ///< bytes queued at which on_drained is called after that

  /// Writes to `fd`, which it does not own.  Throws std::system_error where no thread can be made.
  Writer(event::Loop& loop, int fd, std::function<void()> on_drained);
  /// Writes everything that is queued first.
  ~Writer();

  /// Queues `text`; nothing when the output is broken.
  void write(std::string_view text);

  /// The queue is long: stop producing until on_drained.
  [[nodiscard]] bool full() const;

  /// 0, or the errno of the write(2) that failed: EPIPE where the reader has gone.  What is written after it is
  /// dropped, and on_drained is called.
  [[nodiscard]] int error() const;
  [[nodiscard]] bool broken() const { return error() != 0; }

  /// Waits until everything is written, or for as long as `patience` without any progress (zero: for ever).
  /// False when something was left; the thread is then abandoned, and the process must end with _exit.
  bool finish(std::chrono::milliseconds patience);

 private:
  struct Shared;
  static void run(const std::shared_ptr<Shared>& shared);
  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace runtime::stdio
