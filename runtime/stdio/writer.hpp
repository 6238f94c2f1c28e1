// SPDX-License-Identifier: Apache-2.0
// runtime/stdio/writer.hpp — writes to outputs of the launcher, or to files, in a thread of its own.  So a slow
// terminal, a full pipe or a file server that does not answer blocks that thread, and not the loop. Threads: owned and
// called by the loop's thread; `on_drained` runs in the loop.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "runtime/event/loop.hpp"

namespace runtime::stdio {

class Writer {
 public:
  static constexpr std::size_t kHighWater = 1U << 20;  ///< full() becomes true at this many queued bytes
  static constexpr std::size_t kLowWater = 1U << 18;   ///< it becomes false, and on_drained runs, at this many

  /// A file or output.  Held by shared_ptr, since the thread may outlive the Writer.
  class Target {
   public:
    /// Writes to `fd`, which it does not own; `name` is for messages.
    Target(std::string name, int fd) : name_(std::move(name)), fd_(fd) {}
    /// Owns `file`.
    Target(std::string name, Fd file) : name_(std::move(name)), fd_(file.get()), file_(std::move(file)) {}

    /// True after a failed write; later text is dropped.  Thread-safe.
    [[nodiscard]] bool broken() const noexcept { return broken_; }

   private:
    friend class Writer;
    const std::string name_;
    const int fd_;
    Fd file_;
    std::atomic<bool> broken_{false};
  };

  /// Throws std::system_error when the thread cannot be started.
  Writer(event::Loop& loop, std::function<void()> on_drained);
  /// Waits, without limit, until all queued text is written.
  ~Writer();

  /// Queues a copy of `text`.  Does nothing when the target is broken.
  void write(const std::shared_ptr<Target>& target, std::string_view text);

  /// Closes the target's file when all text queued for it is written.
  void close(std::shared_ptr<Target> target);

  /// True: the queue is long, and the caller must not produce more text until on_drained.
  [[nodiscard]] bool full() const;

  /// Empty, or the first failed write or close with its reason.  EPIPE (the reader has closed) does not count.
  /// on_drained also runs after a failure.
  [[nodiscard]] std::string problem() const;

  /// Waits until all text is written, or until `timeout` has passed without progress (zero: no limit).
  /// Returns false when text is left: the thread is abandoned, and the process must end with _exit.
  bool finish(std::chrono::milliseconds timeout);

 private:
  struct Piece;
  struct Shared;
  static void run(const std::shared_ptr<Shared>& shared);
  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace runtime::stdio
