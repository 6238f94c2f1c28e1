// SPDX-License-Identifier: Apache-2.0
// opal/btl/tcp/connections/reactor.hpp — watches the descriptors and deadlines of a module, edge-triggered.
// An event of the kernel or schedule() puts a Source on the ready list.  run() takes it off and calls on_ready() once.
// The reactor owns its two descriptors only.  The module owns the sources; a source unregisters itself when destroyed.
// on_ready() and on_deadline() may add and destroy sources.  One that destroys its own source must return at once.
// Threads: as the module.
#pragma once
#include <chrono>
#include <cstdint>
#include <vector>

#include "opal/btl/shared/waiting.hpp"
#include "opal/core/clock.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/fd.hpp"

namespace opal::btl::tcp {

class Reactor;

/// A descriptor that the reactor watches, with an optional deadline.  Owns the descriptor.
class Source {
 public:
  explicit Source(Reactor& reactor) noexcept : reactor_(reactor) {}
  virtual ~Source() { close(); }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  /// Runs inside Reactor::run() after an event of the kernel or schedule().
  virtual void on_ready() noexcept = 0;
  /// Runs inside Reactor::run() once the deadline has passed; the deadline is cleared before.
  virtual void on_deadline() noexcept {}

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  [[nodiscard]] bool open() const noexcept { return static_cast<bool>(fd_); }
  /// False: the socket is known to have no input.  An event sets it; the reader that gets EAGAIN clears it.
  bool readable = false;
  /// False: the socket buffer is known to be full.  An event sets it; the writer clears it.
  bool writable = false;
  /// The peer has closed its side, or the socket has an error: the reader must read until recv() reports it.
  bool ended = false;

  /// Takes `fd` and watches it.  Errors: os; `fd` is then closed.
  Result<void> watch(Fd fd);
  /// Returns the descriptor, which is not watched afterwards; otherwise as close().
  [[nodiscard]] Fd release() noexcept;
  /// Closes the descriptor; clears the deadline and the flags, and takes the source off the ready list.
  void close() noexcept;

  void schedule() noexcept;                         ///< makes the next run() call on_ready()
  void set_deadline(std::uint64_t at_ns) noexcept;  ///< replaces an earlier one; now_ns() based
  void set_deadline_in(std::chrono::nanoseconds time) noexcept {
    set_deadline(now_ns() + static_cast<std::uint64_t>(time.count()));
  }
  void clear_deadline() noexcept;

 protected:
  [[nodiscard]] Reactor& reactor() const noexcept { return reactor_; }

 private:
  friend class Reactor;
  void unwatch() noexcept;
  Reactor& reactor_;
  Fd fd_;
  bool scheduled_ = false;         // on the ready list
  std::uint64_t deadline_ns_ = 0;  // 0: none
};

class Reactor {
 public:
  explicit Reactor(Waiting waiting) noexcept : waiting_(std::move(waiting)) {}
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  /// Reads events of the kernel, without waiting: sets the flags of sources and puts them on the ready list.
  void collect() noexcept;
  /// Runs every source of the ready list once, then expired deadlines.  Sources scheduled by these wait for the next
  /// call.
  void run() noexcept;
  /// True when run() has something to do.
  [[nodiscard]] bool has_work() const noexcept { return clock_rang_ || !ready_.empty(); }

  /// In a forked child: closes the child's copies of all descriptors.  Calls no epoll_ctl, which would change the epoll
  /// instance of the parent.  Afterwards sources may only be destroyed.
  void close_in_child() noexcept;

  /// Readable when collect() would find an event.  The reactor owns it.
  [[nodiscard]] int wait_fd() const noexcept { return waiting_.fd(); }

 private:
  friend class Source;
  void run_deadlines() noexcept;

  Waiting waiting_;                 // its clock is at the first deadline, or earlier
  std::vector<Source*> watched_;    // sources with a descriptor
  std::vector<Source*> ready_;      // to run by the next run()
  std::vector<Source*> running_;    // during run(): those of this run; null: done or destroyed
  std::vector<Source*> deadlines_;  // sources with a deadline
  bool clock_rang_ = false;         // collect() has seen that the clock's time has come
};

}  // namespace opal::btl::tcp
