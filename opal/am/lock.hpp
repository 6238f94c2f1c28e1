// SPDX-License-Identifier: Apache-2.0
// opal/am/lock.hpp — the Context's lock: nothing but one predictable branch at thread level `single`.
// Recursive, since handlers run under it and post.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>

namespace opal::am {

enum class ThreadLevel : std::uint8_t {
  single,    ///< one thread at a time uses the Context; no atomic read-modify-write is paid for
  multiple,  ///< any thread may call anything
};

class Lock {
 public:
  explicit Lock(ThreadLevel level) noexcept : real_(level == ThreadLevel::multiple) {}

  /// Whether several threads may be about.
  [[nodiscard]] bool real() const noexcept { return real_; }

  /// In a forked child: the thread that held it may not be here, so it locks nothing any more.
  void leave_to_parent() noexcept { real_ = false; }
  /// Locks again, from the one thread that is here.
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

  /// Takes the lock only if that needs no waiting: true when it holds it.
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
  bool real_;  // changes in a forked child only
  std::recursive_mutex mutex_;
};

}  // namespace opal::am
