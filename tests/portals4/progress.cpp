// SPDX-License-Identifier: Apache-2.0
#include "tests/portals4/progress.hpp"

#include <cerrno>
#include <utility>

namespace opal::test::portals4 {
namespace {

// What no descriptor tells the end of: the queue of another process is full, or this one has no descriptors.
constexpr int kRetryMilliseconds = 2;

short events_of(bool writes, bool reads) { return static_cast<short>((writes ? POLLOUT : 0) | (reads ? POLLIN : 0)); }

// Locked by the progress thread except in poll().  Never destroyed: the thread may run until the process is gone.
std::mutex& work_mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

}  // namespace

void hold_progress() { work_mutex().lock(); }
void release_progress() { work_mutex().unlock(); }

void Progress::run(std::promise<void> started) {
  std::unique_lock working{work_mutex()};
  started.set_value();
  Queue<Operation> operations;
  while (interface_.take_submitted(operations)) {
    start_submitted(operations);
    operations.clear();
    if (wait_for_sockets(working) < 0) continue;
    advance_connections();
    if (is_short_of_descriptors_ || polled_[1].revents != 0) accept_connections();
  }
}

void Progress::start_submitted(Queue<Operation>& operations) {
  started_.clear();
  for (Operation& operation : operations) {
    const auto [nid, pid] = operation.target.phys;
    Outgoing& to = outgoing_.try_emplace({nid, pid}, interface_, operation.target).first->second;
    to.enqueue(std::move(operation));
    if (started_.empty() || started_.back() != &to) started_.push_back(&to);
  }
  for (Outgoing* const to : started_) to->advance();
}

int Progress::wait_for_sockets(std::unique_lock<std::mutex>& working) {
  polled_.clear();
  polled_outgoing_.clear();
  polled_.push_back({interface_.wake_descriptor().get(), POLLIN, 0});
  polled_.push_back({is_short_of_descriptors_ ? -1 : listener_.get(), POLLIN, 0});
  int timeout = is_short_of_descriptors_ ? kRetryMilliseconds : -1;
  for (auto& [target, to] : outgoing_) {
    if (to.is_waiting_to_connect()) {
      to.advance();
      if (to.is_waiting_to_connect()) timeout = kRetryMilliseconds;
    }
    if (!to.socket().is_valid()) continue;
    polled_.push_back({to.socket().get(), events_of(to.is_writing(), true), 0});
    polled_outgoing_.push_back(&to);
  }
  for (const Incoming& from : incoming_) {
    polled_.push_back({from.socket().get(), events_of(from.is_writing(), !from.is_writing()), 0});
  }
  working.unlock();
  const int ready = ::poll(polled_.data(), polled_.size(), timeout);
  working.lock();
  return ready;
}

void Progress::advance_connections() {
  std::size_t at = 2;
  for (Outgoing* const to : polled_outgoing_) {
    if (polled_[at++].revents != 0) to->advance();
  }
  for (auto from = incoming_.begin(); from != incoming_.end();) {
    const bool is_ready = polled_[at++].revents != 0;
    from = is_ready && !from->advance() ? incoming_.erase(from) : std::next(from);
  }
}

void Progress::accept_connections() {
  while (true) {
    Descriptor socket = Descriptor::accepted(listener_);
    if (!socket.is_valid()) {
      is_short_of_descriptors_ = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
      return;
    }
    incoming_.emplace_back(interface_, std::move(socket));
  }
}

}  // namespace opal::test::portals4
