// SPDX-License-Identifier: Apache-2.0
// runtime/event/loop.hpp — the event loop of launcher and daemon: descriptors, timers, and work posted by other
// threads. Threads: everything belongs to the thread in run(), except post(), which is safe from any thread; libpmix's
// thread and the output writers use it.  A Watch or Timer may be destroyed inside its own callback.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "runtime/core_names.hpp"

namespace runtime::event {

using Callback = std::function<void()>;

/// Calls back while a descriptor is ready, until destroyed or paused.  Does not own the descriptor.  One that epoll
/// refuses (a regular file) never calls back.
class Watch {
 public:
  Watch() noexcept = default;
  /// pause(), resume(): not of a Timer.
  void pause() noexcept;
  void resume() noexcept;
  explicit operator bool() const noexcept { return state_ != nullptr; }

  struct State;

 private:
  friend class Loop;
  explicit Watch(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

/// Calls back once, unless destroyed before.
using Timer = Watch;

class Loop {
 public:
  /// Errors: os.
  static Result<std::unique_ptr<Loop>> create();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  /// Runs callbacks until stop(), or an error of libevent.  A stop() before run() has no effect.
  void run();
  void stop() noexcept;

  /// Runs `work` in the loop's thread, in the order of the posts.  From any thread.
  void post(Callback work);

  [[nodiscard]] Watch on_readable(int fd, Callback callback);
  [[nodiscard]] Watch on_writable(int fd, Callback callback);
  [[nodiscard]] Timer after(std::chrono::milliseconds delay, Callback callback);

 private:
  struct State;
  explicit Loop(std::unique_ptr<State> state) noexcept;
  Watch add(int fd, short what, Callback callback, std::chrono::milliseconds delay);
  void set_runner(std::thread::id runner);
  bool run_posted();
  std::unique_ptr<State> state_;
};

}  // namespace runtime::event
