// SPDX-License-Identifier: Apache-2.0
#include "runtime/stdio/writer.hpp"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace runtime::stdio {

// Shared with a thread that may outlive the Writer when it is stuck in write(2) for good.
struct Writer::Shared {
  event::Loop& loop;
  const int fd;
  const std::function<void()> on_drained;

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::string queue;        // not yet taken by the thread
  std::size_t pending = 0;  // bytes of queue plus what the thread still has
  bool was_full = false;
  int error = 0;  // of the write that failed
  bool closing = false;
};

Writer::Writer(event::Loop& loop, int fd, std::function<void()> on_drained)
    : shared_(new Shared{loop, fd, std::move(on_drained), {}, {}, {}}), thread_([shared = shared_] { run(shared); }) {}

Writer::~Writer() {
  if (thread_.joinable()) finish(std::chrono::milliseconds{0});
}

void Writer::write(std::string_view text) {
  const std::lock_guard guard{shared_->mutex};
  if (shared_->error != 0 || text.empty()) return;
  shared_->queue += text;
  shared_->pending += text.size();
  if (shared_->pending >= kHighWater) shared_->was_full = true;
  shared_->changed.notify_all();
}

bool Writer::full() const {
  const std::lock_guard guard{shared_->mutex};
  return shared_->was_full;
}

int Writer::error() const {
  const std::lock_guard guard{shared_->mutex};
  return shared_->error;
}

void Writer::run(const std::shared_ptr<Shared>& shared) {
  std::string batch;
  std::unique_lock lock{shared->mutex};
  while (true) {
    shared->changed.wait(lock, [&] { return !shared->queue.empty() || shared->closing; });
    if (shared->queue.empty()) return;
    batch.clear();
    batch.swap(shared->queue);
    for (std::size_t done = 0; done < batch.size() && shared->error == 0;) {
      lock.unlock();
      const ssize_t written = ::write(shared->fd, batch.data() + done, batch.size() - done);
      const int error = errno;
      if (written < 0 && (error == EAGAIN || error == EWOULDBLOCK)) {  // our caller's descriptor is non-blocking
        pollfd ready{shared->fd, POLLOUT, 0};
        ::poll(&ready, 1, -1);
      }
      lock.lock();
      if (written > 0) {
        done += static_cast<std::size_t>(written);
        shared->pending -= static_cast<std::size_t>(written);
      } else if (written < 0 && error != EINTR && error != EAGAIN && error != EWOULDBLOCK) {
        shared->error = error;
        shared->queue.clear();
        shared->pending = 0;
        shared->was_full = true;
      }
      if (shared->was_full && shared->pending <= kLowWater) {
        shared->was_full = false;
        shared->loop.post(shared->on_drained);
      }
      shared->changed.notify_all();
    }
  }
}

bool Writer::finish(std::chrono::milliseconds patience) {
  std::unique_lock lock{shared_->mutex};
  shared_->closing = true;
  shared_->changed.notify_all();
  while (shared_->pending > 0) {
    const std::size_t before = shared_->pending;
    const auto moved = [&] { return shared_->pending != before; };
    if (patience.count() == 0) {
      shared_->changed.wait(lock, moved);
    } else if (!shared_->changed.wait_for(lock, patience, moved)) {
      lock.unlock();
      thread_.detach();
      return false;
    }
  }
  lock.unlock();
  thread_.join();
  return true;
}

}  // namespace runtime::stdio
