// SPDX-License-Identifier: Apache-2.0
// runtime/stdio/writer.hpp — writes text to the launcher's stdout and stderr, or to files, in a thread of its own.  A
// slow terminal, a full pipe or a file server that does not answer blocks that thread, and not the loop.
// write() and close() take effect in the order of the calls, over all targets of the Writer.
// Threads: the loop's thread owns the Writer and calls it; `on_drained` runs in the loop.
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
  static constexpr std::size_t kHighWater = 1U << 20;  ///< full() becomes true at this many bytes not yet written
  static constexpr std::size_t kLowWater = 1U << 18;   ///< it becomes false, and on_drained runs, at this many

  /// A file, or an output of the launcher.  Held by shared_ptr, since the thread may outlive the Writer (finish()).
  class Target {
   public:
    /// For an output: borrows `fd`.  `name` is for the text of problem().
    Target(std::string name, int fd) : name_(std::move(name)), fd_(fd) {}
    /// For a file: owns `file`.
    Target(std::string name, Fd file) : name_(std::move(name)), fd_(file.get()), file_(std::move(file)) {}

    /// True after a failed write (EPIPE included) or close.  All text that is not written yet is dropped.  Thread-safe.
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
  /// Calls finish() without limit, unless finish() was called before.
  ~Writer();

  /// Queues a copy of `text`.  Does nothing when the target is broken.
  void write(const std::shared_ptr<Target>& target, std::string_view text);

  /// Closes the target's file when all text queued for it is written.
  /// Requires: the target owns its file, and no write() to it follows.
  void close(std::shared_ptr<Target> target);

  /// True: the queue is long, and the caller must not read more text until on_drained runs.  write() has no limit.
  [[nodiscard]] bool full() const;

  /// Describes the first failed write or close, with its reason; empty: none.  EPIPE (the reader has closed its end)
  /// does not count.  on_drained also runs after a failure, so that the caller learns of it.
  [[nodiscard]] std::string problem() const;

  /// Waits until all text is written and all files are closed, then ends the thread.  Gives up when `timeout` passes
  /// without progress (zero: never).  Requires: it is called once, and neither write() nor close() follows.
  /// False: text is left.  The thread is blocked in a call and later uses the loop: the process must end with _exit.
  bool finish(std::chrono::milliseconds timeout);

 private:
  struct Piece;
  struct Shared;
  static void run(const std::shared_ptr<Shared>& shared);
  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace runtime::stdio
