// SPDX-License-Identifier: Apache-2.0
// runtime/event/loop.hpp — the event loop of launcher and daemon: descriptors, timers, and work posted by other
// threads.  Threads: only the thread in run() uses these objects, except post(), which is safe from any thread
// (libpmix's thread and the output writers call it).  Watches and Timers must be destroyed before their Loop.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/core_names.hpp"

struct event_base;

namespace runtime::event {

using Callback = std::function<void()>;

/// Runs a callback whenever a descriptor is ready, until it is destroyed or paused.  May be destroyed inside its own
/// callback.  Does not own the descriptor.  For a descriptor that epoll refuses (a regular file) the callback never
/// runs.
class Watch {
 public:
  Watch() noexcept = default;
  // pause() and resume() are idempotent.  Not for a Timer.
  void pause() noexcept;
  void resume() noexcept;
  explicit operator bool() const noexcept { return state_ != nullptr; }

  struct State;

 private:
  friend class Loop;
  explicit Watch(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

/// Runs a callback once, unless it is destroyed before.  It stays non-empty after that.
using Timer = Watch;

class Loop {
 public:
  /// Errors: os.
  static Result<std::unique_ptr<Loop>> create();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  /// Runs callbacks until one of them calls stop(), or libevent fails.  A stop() before run() has no effect.
  void run();
  void stop() noexcept;

  /// Queues `work`; run() runs it, in the order of the posts.  Thread-safe.
  void post(Callback work);

  [[nodiscard]] Watch on_readable(int fd, Callback callback);
  [[nodiscard]] Watch on_writable(int fd, Callback callback);
  [[nodiscard]] Timer after(std::chrono::milliseconds delay, Callback callback);

 private:
  struct FreeBase {
    void operator()(event_base* base) const noexcept;
  };
  Loop() = default;
  Watch add(int fd, short what, Callback callback, std::chrono::milliseconds delay);
  void set_runner(std::thread::id runner);
  bool run_posted();

  std::unique_ptr<event_base, FreeBase> base_;
  Fd wakeup_;
  Watch wakeup_watch_;    // destroyed before wakeup_ and base_
  bool stopped_ = false;  // only the thread in run() uses it
  std::mutex mutex_;
  std::thread::id runner_;        // the thread in run(), or none; guarded by mutex_
  std::vector<Callback> posted_;  // guarded by mutex_
};

}  // namespace runtime::event
