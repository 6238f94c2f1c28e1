// SPDX-License-Identifier: Apache-2.0
// opal/core/system/fork_listener.hpp — base class of objects that act before and after a fork() of the process.
// Reasons: a lock must be free in the child; the child has only the thread that forked; the child must close
// descriptors whose last close has a meaning for a peer.  All listeners share one pthread_atfork().  clone() and
// vfork() call no handler; an exec closes descriptors that are CLOEXEC.
// Threads: safe from any thread.  A fork blocks until before_fork() of each listener has returned.
#pragma once
#include "opal/core/export.hpp"

namespace opal {

class OPAL_EXPORT ForkListener {
 public:
  ForkListener(const ForkListener&) = delete;
  ForkListener& operator=(const ForkListener&) = delete;

 protected:
  ForkListener() noexcept = default;
  ~ForkListener() = default;

  /// Starts the calls of the virtual functions.  Call it as the last statement of the constructor.
  void follow_forks() noexcept;
  /// Ends them; waits for a fork in flight.  Call it as the first statement of the destructor.
  void unfollow_forks() noexcept;

 private:
  // The thread that forks calls these.  They must not call follow_forks() or unfollow_forks().
  /// Typically locks the listener.  Must not wait for another listener.
  virtual void before_fork() noexcept = 0;
  virtual void after_fork_in_parent() noexcept = 0;
  virtual void after_fork_in_child() noexcept = 0;

  static void before() noexcept;
  static void in_parent() noexcept;
  static void in_child() noexcept;

  ForkListener* next_ = nullptr;
};

}  // namespace opal
