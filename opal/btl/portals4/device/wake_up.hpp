// SPDX-License-Identifier: Apache-2.0
// opal/btl/portals4/device/wake_up.hpp — a thread that waits for the next event in PtlEQPoll() while the module sleeps,
// since an event queue has no descriptor.
// Ownership of the queues: the module reads them; arm() gives them to the thread.  The thread takes at most one event,
// makes fd() readable, and gives the queues back with that event.  So events are never handled out of order.
// The library may poll inside PtlEQPoll(), as the reference implementation does; the thread then uses a core.
// Owned by the module.  Threads: as the module.
#pragma once
#include <portals4.h>

#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "opal/btl/portals4/device/interface.hpp"
#include "opal/core/export.hpp"
#include "opal/core/system/fd.hpp"

namespace opal::btl::portals4 {

class OPAL_EXPORT WakeUp {
 public:
  struct Event {
    ptl_event_t event;
    bool arrival;  ///< of the queue `arrivals`
  };

  /// Errors: os.
  static Result<std::unique_ptr<WakeUp>> create(const Interface& interface, const Objects& objects);
  ~WakeUp();
  WakeUp(const WakeUp&) = delete;
  WakeUp& operator=(const WakeUp&) = delete;

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  /// Gives the queues to the thread, unless it has them.  Starts the thread on its first call.  False: the thread has
  /// taken an event, which take() returns.
  [[nodiscard]] bool arm();
  /// True while the thread has the queues.  Once it is false, take() returns the event that the thread took, if any.
  [[nodiscard]] bool armed() const noexcept { return state_.load(std::memory_order_acquire) == State::armed; }
  /// Returns the event that the thread took and resets fd(); false: there is none.
  bool take(Event& event) noexcept;
  /// Takes the queues back, within kPollTime.
  void disarm() noexcept;

  /// In a forked child, which has no such thread.
  void abandon() noexcept;

 private:
  enum class State : std::uint8_t { idle, armed, taken };
  WakeUp(const Interface& interface, const Objects& objects, Fd fd) noexcept
      : interface_(interface), queues_{objects.arrivals(), objects.ends()}, fd_(std::move(fd)) {}
  void run() noexcept;

  const Interface& interface_;
  const std::array<ptl_handle_eq_t, 2> queues_;  // arrivals, ends
  Fd fd_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<State> state_ = State::idle;
  std::atomic<bool> give_back_ = false;  // the module wants the queues
  bool stop_ = false;
  Event event_{};
  std::unique_ptr<std::thread> thread_;
};

}  // namespace opal::btl::portals4
