// SPDX-License-Identifier: Apache-2.0
// opal/am/lock.hpp — the Context's lock.  At thread level `single` it costs one predictable branch and locks nothing.
// Recursive: handlers run under it and post.
//
// What is expensive is not the lock but the move of the Context's state to another core's cache, some 10 cache lines.
// So a thread that sends many short messages keeps the lock for a burst of them: a waiting thread tries the lock when
// the holder makes no further pass, or after the end of a burst, not after each pass.  Threads that only poll give way
// while another one waits.  After some 50 us a waiting thread sleeps.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "opal/core/bytes.hpp"
#include "opal/core/export.hpp"

namespace opal::am {

enum class ThreadLevel : std::uint8_t {
  single,    ///< one thread at a time uses the Context; its lock needs no atomic read-modify-write
  multiple,  ///< any thread may call anything
};

class alignas(kCacheLine) Lock {
 public:
  explicit Lock(ThreadLevel level) noexcept : real_(level == ThreadLevel::multiple) {}

  /// True if several threads may use the Context: the lock is a mutex then.
  [[nodiscard]] bool real() const noexcept { return real_; }

  /// In a forked child: turns locking off, since the thread that holds the mutex may exist in the parent only.
  void leave_to_parent() noexcept {
    real_ = false;
    waiting_.store(0, std::memory_order_relaxed);
  }
  /// In a forked child: undoes leave_to_parent() with a fresh mutex.  Requires: no other thread uses the lock.
  void take_over(ThreadLevel level) noexcept {
    std::construct_at(&mutex_);
    real_ = level == ThreadLevel::multiple;
  }

  class Guard {
   public:
    explicit Guard(Lock& lock) noexcept : lock_(lock) {
      if (lock_.real_) [[unlikely]]
        lock_.lock();
    }
    ~Guard() {
      if (lock_.real_) [[unlikely]]
        lock_.mutex_.unlock();
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    Lock& lock_;
  };

  /// Before a Guard of a thread that only looks for something to do: waits until no other thread waits for the lock,
  /// about a microsecond at most.
  void give_way() const noexcept {
    if (waiting_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      give_way_to_waiting();
  }

  /// Takes the lock if that does not block; true while it holds the lock.  Always true at level `single`.
  class TryGuard {
   public:
    explicit TryGuard(Lock& lock) noexcept : lock_(lock), held_(!lock.real_ || lock.mutex_.try_lock()) {}
    ~TryGuard() {
      if (held_ && lock_.real_) lock_.mutex_.unlock();
    }
    TryGuard(const TryGuard&) = delete;
    TryGuard& operator=(const TryGuard&) = delete;
    explicit operator bool() const noexcept { return held_; }

   private:
    Lock& lock_;
    const bool held_;
  };

 private:
  void lock() noexcept {
    if (!mutex_.try_lock()) [[unlikely]]
      wait();
    passes_.store(passes_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  [[gnu::cold]] OPAL_EXPORT void wait() noexcept;
  [[gnu::cold]] OPAL_EXPORT void give_way_to_waiting() const noexcept;

  bool real_;                              // thread level `multiple`; changes in a forked child only
  std::atomic<std::uint32_t> passes_{0};   // number of lock() calls of all threads; written by the holder
  std::atomic<std::uint32_t> waiting_{0};  // threads in wait()
  std::recursive_mutex mutex_;
};

}  // namespace opal::am
