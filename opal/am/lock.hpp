// SPDX-License-Identifier: Apache-2.0
// opal/am/lock.hpp — the Context's lock.  At thread level `single` it costs one predictable branch and locks nothing.
// Recursive: handlers run under it and post.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>

namespace opal::am {

enum class ThreadLevel : std::uint8_t {
  single,    ///< one thread at a time uses the Context; its lock needs no atomic read-modify-write
  multiple,  ///< any thread may call anything
};

class Lock {
 public:
  explicit Lock(ThreadLevel level) noexcept : real_(level == ThreadLevel::multiple) {}

  /// True if several threads may use the Context: the lock is a mutex then.
  [[nodiscard]] bool real() const noexcept { return real_; }

  /// In a forked child: turns locking off, since the thread that holds the mutex may exist in the parent only.
  void leave_to_parent() noexcept { real_ = false; }
  /// In a forked child: undoes leave_to_parent() with a fresh mutex.  Requires: no other thread uses the lock.
  void take_over(ThreadLevel level) noexcept {
    std::construct_at(&mutex_);
    real_ = level == ThreadLevel::multiple;
  }

  class Guard {
   public:
    explicit Guard(Lock& lock) noexcept : lock_(lock) {
      if (lock_.real_) [[unlikely]]
        lock_.mutex_.lock();
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
  bool real_;  // thread level `multiple`; changes in a forked child only
  std::recursive_mutex mutex_;
};

}  // namespace opal::am
