// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/portals4/device/wake_up.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

namespace opal::btl::portals4 {
namespace {

constexpr ptl_time_t kPollTime = 20;  // ms of one PtlEQPoll(), after which the thread looks whether to stop

}  // namespace

Result<std::unique_ptr<WakeUp>> WakeUp::create(const Interface& interface, const Objects& objects) {
  Fd fd{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  if (!fd) return Error{Errc::os, errno, "eventfd"};
  return std::unique_ptr<WakeUp>{new WakeUp{interface, objects, std::move(fd)}};
}

WakeUp::~WakeUp() {
  if (thread_ == nullptr) return;
  disarm();
  {
    const std::lock_guard lock{mutex_};
    stop_ = true;
  }
  changed_.notify_all();
  thread_->join();
}

bool WakeUp::arm() {
  {
    const std::lock_guard lock{mutex_};
    if (state_ != State::idle) return state_ == State::armed;
    give_back_ = false;
    state_.store(State::armed, std::memory_order_release);
  }
  if (thread_ == nullptr) thread_ = std::make_unique<std::thread>([this] { run(); });
  changed_.notify_all();
  return true;
}

void WakeUp::disarm() noexcept {
  std::unique_lock lock{mutex_};
  if (state_ != State::armed) return;
  give_back_ = true;
  changed_.notify_all();
  changed_.wait(lock, [this] { return state_ != State::armed; });
}

bool WakeUp::take(Event& event) noexcept {
  if (state_.load(std::memory_order_acquire) != State::taken) return false;
  event = event_;
  std::uint64_t count = 0;
  (void)!::read(fd_.get(), &count, sizeof count);
  state_.store(State::idle, std::memory_order_release);
  return true;
}

void WakeUp::abandon() noexcept {
  (void)thread_.release();
  std::construct_at(&changed_);  // the old one counts the parent's thread, for which its destructor would wait
  fd_.reset();
}

void WakeUp::run() noexcept {
  std::unique_lock lock{mutex_};
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || state_ == State::armed; });
    if (stop_) return;
    lock.unlock();
    unsigned int which = 0;
    Event taken{};
    int result = PTL_EQ_EMPTY;
    while (result == PTL_EQ_EMPTY && !give_back_) {
      result = interface_.library().eq_poll(queues_.data(), queues_.size(), kPollTime, &taken.event, &which);
    }
    lock.lock();
    if (result == PTL_EQ_EMPTY) {
      state_.store(State::idle, std::memory_order_release);
    } else {
      // A failure wakes the module, too: its PtlEQGet() reports it.
      const bool is_event = result == PTL_OK || result == PTL_EQ_DROPPED;
      taken.arrival = which == 0;
      event_ = taken;
      const std::uint64_t one = 1;
      (void)!::write(fd_.get(), &one, sizeof one);  // before take(), which resets it
      state_.store(is_event ? State::taken : State::idle, std::memory_order_release);
    }
    changed_.notify_all();
  }
}

}  // namespace opal::btl::portals4
