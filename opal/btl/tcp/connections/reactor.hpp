// SPDX-License-Identifier: Apache-2.0
// opal/btl/tcp/connections/reactor.hpp — the descriptors of a module and their deadlines: one epoll instance, edge
// triggered, and one timer.  A Source that has something to do stands in the ready list until its on_ready() leaves it
// off again. Owns nothing but its two descriptors; sources are owned by the module and leave by themselves when
// destroyed. Sources may be added and destroyed from inside on_ready()/on_deadline(), also the one that runs if it
// returns at once.
#pragma once
#include <cstdint>
#include <vector>

#include "opal/core/result.hpp"
#include "opal/core/system/fd.hpp"

namespace opal::btl::tcp {

class Reactor;

/// Something with a descriptor that the reactor watches, and perhaps a deadline.
class Source {
 public:
  explicit Source(Reactor& reactor) noexcept : reactor_(reactor) {}
  virtual ~Source() { close(); }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  /// Runs from Reactor::run() when readable() or writable() may have changed, or after schedule().
  virtual void on_ready() noexcept = 0;
  /// Runs once when the deadline has passed.
  virtual void on_deadline() noexcept {}

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  [[nodiscard]] bool open() const noexcept { return static_cast<bool>(fd_); }
  /// Not known to be empty: reading is worth a system call.  Cleared by the reader that gets EAGAIN.
  bool readable = false;
  /// Not known to be full.
  bool writable = false;
  /// The peer has closed its side, or there is an error to collect: read to the end.
  bool ended = false;

  /// Takes `fd` over and watches it.  Errors: os.
  Result<void> watch(Fd fd);
  /// Gives the descriptor away, no longer watched.
  [[nodiscard]] Fd release() noexcept;
  /// Closes the descriptor and forgets deadline and readiness.
  void close() noexcept;

  void schedule() noexcept;  ///< on_ready() will run
  void set_deadline(std::uint64_t at_ns) noexcept;
  void clear_deadline() noexcept;

 protected:
  [[nodiscard]] Reactor& reactor() const noexcept { return reactor_; }

 private:
  friend class Reactor;
  void enlist() noexcept;
  void withdraw() noexcept;
  Reactor& reactor_;
  Fd fd_;
  Source* next_ = nullptr;  // of all that have a descriptor
  Source* previous_ = nullptr;
  bool scheduled_ = false;
  std::uint64_t deadline_ns_ = 0;  // 0: none
};

class Reactor {
 public:
  static Result<Reactor> open();

  /// Asks the kernel for events, without waiting.
  void collect() noexcept;
  /// Runs what has expired, and every source that stood in the ready list, once.
  void run() noexcept;
  /// True when run() has something to do.
  [[nodiscard]] bool has_work() const noexcept { return timer_rang_ || !ready_.empty(); }

  /// In a forked child: closes every descriptor, which the parent goes on with, and asks nothing of the kernel that
  /// would change the parent's epoll instance.  Afterwards sources are only destroyed.
  void close_in_child() noexcept;

  /// Readable when collect() has something to bring.
  [[nodiscard]] int wait_fd() const noexcept { return epoll_.get(); }

 private:
  friend class Source;
  Reactor(Fd epoll, Fd timer) noexcept : epoll_(std::move(epoll)), timer_(std::move(timer)) {}
  void run_deadlines() noexcept;
  void set_timer(std::uint64_t at_ns) noexcept;

  Fd epoll_;
  Fd timer_;
  Source* first_ = nullptr;
  std::vector<Source*> ready_;
  std::vector<Source*> running_;
  std::vector<Source*> waiting_;   // sources with a deadline
  std::uint64_t timer_at_ns_ = 0;  // 0: not set
  bool timer_rang_ = false;
};

}  // namespace opal::btl::tcp
