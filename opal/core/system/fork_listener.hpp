// SPDX-License-Identifier: Apache-2.0
// opal/core/system/fork_listener.hpp — what must not be caught in the middle by a fork() of the process, or must not be
// used by the child: locks, threads (the child has none but the one that forked), descriptors whose last close means
// something to a peer.  One pthread_atfork for all.  clone() and vfork() call no handler; an exec closes what is
// CLOEXEC. Threads: safe from any; a fork waits for before_fork() of every listener.
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

  /// From here on the functions below are called: the last act of a constructor.
  void follow_forks() noexcept;
  /// The first act of a destructor.
  void unfollow_forks() noexcept;

 private:
  /// Takes the listener's locks, in the thread that forks.  Must not wait for another listener.
  virtual void before_fork() noexcept = 0;
  virtual void after_fork_in_parent() noexcept = 0;
  virtual void after_fork_in_child() noexcept = 0;

  static void before() noexcept;
  static void in_parent() noexcept;
  static void in_child() noexcept;

  ForkListener* next_ = nullptr;
};

}  // namespace opal
