// SPDX-License-Identifier: Apache-2.0
// opal/am/bootstrap/waiter.hpp — lets threads sleep until something happens at a Context: one epoll descriptor over the
// modules' descriptors, and one eventfd per thread.  By the eventfd a thread whose progress() received something wakes
// the other sleepers.  The Context owns the Waiter.  Threads: any.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "opal/core/clock.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/fd.hpp"

namespace opal::am {

class OPAL_EXPORT Waiter {
 public:
  /// Errors: os.
  static Result<std::unique_ptr<Waiter>> create();

  /// Watches `fd` for reading.  The caller owns `fd` and calls remove() before it closes it.  Errors: os.
  Result<void> add(int fd);
  void remove(int fd) noexcept;

  [[nodiscard]] int fd() const noexcept { return epoll_.get(); }

  /// Replaces the epoll instance by an empty one with the same descriptor number: after a restart the former instance
  /// may be shared with the process of the image.  Wakes all sleepers.  Errors: os.
  Result<void> renew() noexcept;

  /// In a forked child that continues to use the Context: drops the entries of the parent's sleepers.
  void take_over() noexcept;

  /// Registers the calling thread as a sleeper from construction to destruction.
  /// A wake_others() in between ends the thread's next sleep(), so the caller tests its condition after construction.
  class Sleeper {
   public:
    explicit Sleeper(Waiter& waiter) noexcept;
    ~Sleeper();
    Sleeper(const Sleeper&) = delete;
    Sleeper& operator=(const Sleeper&) = delete;
    /// Sleeps until a watched descriptor is readable, another thread wakes this one, or the deadline has come.
    void sleep(const Deadline& deadline) noexcept;

   private:
    Waiter& waiter_;
    int event_;  // this thread's eventfd, closed at thread exit; -1: none, see thread_event()
  };

  static constexpr std::size_t kMostWatched = 32;
  /// Sleeps until one of `fds` is readable, another thread wakes this one, or the deadline has come.  Watches only the
  /// first kMostWatched.  Requires: the caller holds a Sleeper of each Waiter that may wake it.
  static void sleep(std::span<const int> fds, const Deadline& deadline) noexcept;

  /// True while a Sleeper exists.
  [[nodiscard]] bool has_sleepers() const noexcept { return sleepers_count_.load(std::memory_order_seq_cst) != 0; }

  /// Wakes every sleeper.  Costs one load if there is none.
  void wake_others() noexcept {
    if (sleepers_count_.load(std::memory_order_seq_cst) != 0) [[unlikely]]
      wake_all();
  }

 private:
  explicit Waiter(Fd epoll) noexcept : epoll_(std::move(epoll)) {}
  void wake_all() noexcept;

  Fd epoll_;
  std::atomic<int> sleepers_count_{0};
  std::mutex mutex_;
  std::vector<int> sleepers_;  // guarded by mutex_
};

}  // namespace opal::am
