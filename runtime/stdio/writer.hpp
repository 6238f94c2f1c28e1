// SPDX-License-Identifier: Apache-2.0
// runtime/stdio/writer.hpp — writes to outputs of the launcher, or to files, from a thread of its own, so that a slow
// terminal, a full pipe or a file server that does not answer stops the ranks that print, and nothing else of the
// launcher.  Threads: owned and called by the loop's thread; `on_drained` runs there too.
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
  static constexpr std::size_t kHighWater = 1U << 20;  ///< bytes queued from which on full() says so
  static constexpr std::size_t kLowWater = 1U << 18;   ///< bytes queued at which on_drained is called after that

  /// Where text goes.  Must have a shared_ptr.
  class Target {
   public:
    /// Writes to `fd`, which it does not own; `name` is for messages.
    Target(std::string name, int fd) : name_(std::move(name)), fd_(fd) {}
    /// Owns `file`.
    Target(std::string name, Fd file) : name_(std::move(name)), fd_(file.get()), file_(std::move(file)) {}

    /// A write failed; what is written after it is dropped.
    [[nodiscard]] bool broken() const noexcept { return broken_; }

   private:
    friend class Writer;
    const std::string name_;
    const int fd_;
    Fd file_;
    std::atomic<bool> broken_{false};
  };

  /// Throws std::system_error where no thread can be made.
  Writer(event::Loop& loop, std::function<void()> on_drained);
  /// Writes everything that is queued first.
  ~Writer();

  /// Queues `text`; nothing when the target is broken.
  void write(const std::shared_ptr<Target>& target, std::string_view text);

  /// Closes the target's file when everything for it is written.
  void close(std::shared_ptr<Target> target);

  /// The queue is long: stop producing until on_drained.
  [[nodiscard]] bool full() const;

  /// Empty, or which write or close was the first to fail and why.  A reader that has gone (EPIPE) is no reason.
  /// on_drained is called after each failure.
  [[nodiscard]] std::string problem() const;

  /// Waits until everything is written, or for as long as `timeout` without any progress (zero: for ever).
  /// False when something was left; the thread is then abandoned, and the process must end with _exit.
  bool finish(std::chrono::milliseconds timeout);

 private:
  struct Piece;
  struct Shared;
  static void run(const std::shared_ptr<Shared>& shared);
  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace runtime::stdio
