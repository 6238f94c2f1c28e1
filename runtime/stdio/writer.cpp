// SPDX-License-Identifier: Apache-2.0
#include "runtime/stdio/writer.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>

namespace runtime::stdio {

struct Writer::Piece {
  std::shared_ptr<Target> target;
  std::string text;
  bool closes = false;
};

// Shared with a thread that may outlive the Writer when it is stuck in write(2) for good.
struct Writer::Shared {
  Shared(event::Loop& owner, std::function<void()> callback) : loop(owner), on_drained(std::move(callback)) {}

  event::Loop& loop;
  const std::function<void()> on_drained;

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::deque<Piece> queue;  // not yet taken by the thread
  std::size_t pending = 0;  // bytes queued or held by the thread, plus one for each file to close
  bool was_full = false;
  std::string problem;
  bool closing = false;

  // Requires: the caller does not hold the mutex.
  void write(const Piece& piece);
  void close(Target& target);
  void done(std::size_t bytes);
  void failed(Target& target, int error);
};

Writer::Writer(event::Loop& loop, std::function<void()> on_drained)
    : shared_(std::make_shared<Shared>(loop, std::move(on_drained))), thread_([shared = shared_] { run(shared); }) {}

Writer::~Writer() {
  if (thread_.joinable()) finish(std::chrono::milliseconds{0});
}

void Writer::write(const std::shared_ptr<Target>& target, std::string_view text) {
  if (target->broken() || text.empty()) return;
  const std::lock_guard guard{shared_->mutex};
  std::deque<Piece>& queue = shared_->queue;
  if (queue.empty() || queue.back().target != target) queue.push_back({target, {}});
  queue.back().text += text;
  shared_->pending += text.size();
  if (shared_->pending >= kHighWater) shared_->was_full = true;
  shared_->changed.notify_all();
}

void Writer::close(std::shared_ptr<Target> target) {
  const std::lock_guard guard{shared_->mutex};
  shared_->queue.push_back({std::move(target), {}, true});
  shared_->pending += 1;
  shared_->changed.notify_all();
}

bool Writer::full() const {
  const std::lock_guard guard{shared_->mutex};
  return shared_->was_full;
}

std::string Writer::problem() const {
  const std::lock_guard guard{shared_->mutex};
  return shared_->problem;
}

void Writer::Shared::done(std::size_t bytes) {
  const std::lock_guard guard{mutex};
  pending -= bytes;
  if (was_full && pending <= kLowWater) {
    was_full = false;
    loop.post(on_drained);
  }
  changed.notify_all();
}

void Writer::Shared::failed(Target& target, int error) {
  target.broken_ = true;
  const std::lock_guard guard{mutex};
  if (error != EPIPE && problem.empty()) {
    problem =
        fmt::format("cannot write to {}: {}", target.name_, std::strerror(error));  // NOLINT(concurrency-mt-unsafe)
  }
  if (!was_full) loop.post(on_drained);
}

void Writer::Shared::write(const Piece& piece) {
  std::string_view rest = piece.text;
  while (!rest.empty() && !piece.target->broken()) {
    const ssize_t written = TEMP_FAILURE_RETRY(::write(piece.target->fd_, rest.data(), rest.size()));
    if (written >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(written));
      done(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {  // our caller's descriptor is non-blocking
      pollfd ready{piece.target->fd_, POLLOUT, 0};
      ::poll(&ready, 1, -1);
    } else {
      failed(*piece.target, errno);
    }
  }
  done(rest.size());  // of a broken target, the rest is dropped
}

/// Closes the file; a network file system may report a full disk only now.
void Writer::Shared::close(Target& target) {
  if (::close(target.file_.release()) != 0) failed(target, errno);
  done(1);
}

void Writer::run(const std::shared_ptr<Shared>& shared) {
  std::deque<Piece> batch;
  while (true) {
    {
      std::unique_lock lock{shared->mutex};
      shared->changed.wait(lock, [&] { return !shared->queue.empty() || shared->closing; });
      if (shared->queue.empty()) return;
      batch.swap(shared->queue);
    }
    for (Piece& piece : batch) {
      if (piece.closes) {
        shared->close(*piece.target);
      } else {
        shared->write(piece);
      }
    }
    batch.clear();
  }
}

bool Writer::finish(std::chrono::milliseconds timeout) {
  std::unique_lock lock{shared_->mutex};
  shared_->closing = true;
  shared_->changed.notify_all();
  while (shared_->pending > 0) {
    const std::size_t before = shared_->pending;
    const auto moved = [&] { return shared_->pending != before; };
    if (timeout.count() == 0) {
      shared_->changed.wait(lock, moved);
    } else if (!shared_->changed.wait_for(lock, timeout, moved)) {
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
