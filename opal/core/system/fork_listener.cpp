// SPDX-License-Identifier: Apache-2.0
#include "opal/core/system/fork_listener.hpp"

#include <pthread.h>

#include <mutex>

#include "opal/core/log.hpp"

namespace opal {
namespace {

constinit std::mutex mutex;
constinit ForkListener* first = nullptr;
constinit bool installed = false;

}  // namespace

void ForkListener::follow_forks() noexcept {
  const std::lock_guard lock{mutex};
  if (!installed) {
    installed = ::pthread_atfork(&before, &in_parent, &in_child) == 0;
    if (!installed) log::warn("core", "pthread_atfork: no memory; forked children must not use OPAL");
  }
  next_ = first;
  first = this;
}

void ForkListener::unfollow_forks() noexcept {
  const std::lock_guard lock{mutex};
  ForkListener** link = &first;
  while (*link != this) link = &(*link)->next_;
  *link = next_;
}

void ForkListener::before() noexcept {
  mutex.lock();
  for (ForkListener* listener = first; listener != nullptr; listener = listener->next_) listener->before_fork();
}

void ForkListener::in_parent() noexcept {
  for (ForkListener* listener = first; listener != nullptr; listener = listener->next_) {
    listener->after_fork_in_parent();
  }
  mutex.unlock();
}

void ForkListener::in_child() noexcept {
  for (ForkListener* listener = first; listener != nullptr; listener = listener->next_) {
    listener->after_fork_in_child();
  }
  mutex.unlock();
}

}  // namespace opal
