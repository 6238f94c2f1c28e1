// SPDX-License-Identifier: Apache-2.0
// opal/am/bootstrap/waiter.hpp — the sleep of a Context: one epoll descriptor over the modules' descriptors, and, at
// thread level `multiple`, an eventfd per sleeping thread, since another thread's progress may be what a sleeper waits
// for. Threads: from any thread.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "opal/core/clock.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/fd.hpp"

namespace opal::am {

class Waiter {
 public:
  static Result<std::unique_ptr<Waiter>> create();

  /// Watches `fd` for reading.
  Result<void> add(int fd);
  void remove(int fd) noexcept;

  [[nodiscard]] int fd() const noexcept { return epoll_.get(); }

  /// Replaces the epoll descriptor by a new, empty one of the same number: after a restart the former one may belong to
  /// the process of the image.  Sleepers wake up.
  Result<void> renew() noexcept;

  /// In a forked child that goes on with the Context: forgets the parent's sleepers.
  void take_over() noexcept;

  /// A thread that is about to sleep.  The constructor announces it, so that a later wake_others() is not lost.
  class Sleeper {
   public:
    explicit Sleeper(Waiter& waiter) noexcept;
    ~Sleeper();
    Sleeper(const Sleeper&) = delete;
    Sleeper& operator=(const Sleeper&) = delete;
    /// Sleeps until a descriptor is readable, another thread wakes this one, or the deadline.
    void sleep(const Deadline& deadline) noexcept;

   private:
    Waiter& waiter_;
    int event_;  // this thread's eventfd; closed at thread exit
  };

  static constexpr std::size_t kMostWatched = 32;
  /// Sleeps until one of these descriptors is readable, another thread wakes this one, or the deadline.  The caller has
  /// announced itself to the waiters that may wake it.
  static void sleep(std::span<const int> fds, const Deadline& deadline) noexcept;

  /// A thread sleeps or is about to.
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
