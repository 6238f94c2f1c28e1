// SPDX-License-Identifier: Apache-2.0
#include "runtime/event/loop.hpp"

#include <event2/event.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <new>

namespace runtime::event {
namespace {

/// Limit of run_posted() calls in a row: callbacks that post more work must not starve descriptors and timers.
constexpr int kMostPostedRounds = 8;

struct FreeEvent {
  void operator()(struct event* e) const noexcept { event_free(e); }
};

}  // namespace

struct Watch::State : std::enable_shared_from_this<Watch::State> {
  Callback callback;
  std::unique_ptr<struct event, FreeEvent> event;

  static void fire(evutil_socket_t /*fd*/, short /*what*/, void* self) {
    // Keeps the callback alive while it runs, even if it destroys its own Watch.
    const std::shared_ptr<State> state = static_cast<State*>(self)->shared_from_this();
    state->callback();
  }
};

void Watch::pause() noexcept {
  if (state_) event_del(state_->event.get());
}

void Watch::resume() noexcept {
  if (state_) event_add(state_->event.get(), nullptr);
}

void Loop::FreeBase::operator()(event_base* base) const noexcept { event_base_free(base); }

Result<std::unique_ptr<Loop>> Loop::create() {
  std::unique_ptr<Loop> loop{new Loop};
  loop->base_.reset(event_base_new());
  if (!loop->base_) return Error{Errc::os, errno, "event_base_new"};
  loop->wakeup_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!loop->wakeup_) return Error{Errc::os, errno, "eventfd(loop)"};
  loop->wakeup_watch_ = loop->on_readable(loop->wakeup_.get(), [fd = loop->wakeup_.get()] {
    eventfd_t count = 0;
    eventfd_read(fd, &count);  // only ends event_base_loop(); run() then runs the posted work
  });
  return loop;
}

void Loop::run() {
  stopped_ = false;
  set_runner(std::this_thread::get_id());
  while (true) {
    bool more = true;
    for (int round = 0; more && !stopped_ && round < kMostPostedRounds; ++round) more = run_posted();
    if (stopped_) break;
    const int wait = more ? EVLOOP_NONBLOCK : EVLOOP_ONCE;
    if (event_base_loop(base_.get(), wait | EVLOOP_NO_EXIT_ON_EMPTY) < 0) break;
  }
  set_runner({});
}

void Loop::set_runner(std::thread::id runner) {
  const std::lock_guard guard{mutex_};
  runner_ = runner;
}

void Loop::stop() noexcept {
  stopped_ = true;
  event_base_loopbreak(base_.get());
}

void Loop::post(Callback work) {
  {
    const std::lock_guard guard{mutex_};
    posted_.push_back(std::move(work));
    // The thread in run() runs posted work before it waits, so it needs no wake-up.
    if (runner_ == std::this_thread::get_id()) return;
  }
  eventfd_write(wakeup_.get(), 1);
}

/// Runs all work that was posted before this call, even if one of the callbacks calls stop().  Returns whether more was
/// posted meanwhile.
bool Loop::run_posted() {
  std::vector<Callback> work;
  {
    const std::lock_guard guard{mutex_};
    work.swap(posted_);
  }
  for (Callback& callback : work) callback();
  const std::lock_guard guard{mutex_};
  return !posted_.empty();
}

Watch Loop::add(int fd, short what, Callback callback, std::chrono::milliseconds delay) {
  auto watch = std::make_shared<Watch::State>();
  watch->callback = std::move(callback);
  watch->event.reset(event_new(base_.get(), fd, what, &Watch::State::fire, watch.get()));
  if (watch->event == nullptr) throw std::bad_alloc{};
  const timeval time{delay.count() / 1000, (delay.count() % 1000) * 1000};
  event_add(watch->event.get(), what == EV_TIMEOUT ? &time : nullptr);
  return Watch{std::move(watch)};
}

Watch Loop::on_readable(int fd, Callback callback) { return add(fd, EV_READ | EV_PERSIST, std::move(callback), {}); }

Watch Loop::on_writable(int fd, Callback callback) { return add(fd, EV_WRITE | EV_PERSIST, std::move(callback), {}); }

Timer Loop::after(std::chrono::milliseconds delay, Callback callback) {
  return add(-1, EV_TIMEOUT, std::move(callback), delay);
}

}  // namespace runtime::event
