// SPDX-License-Identifier: Apache-2.0
// Start and end of an interface, and the initiator's events.  The target's part is in delivery.cpp.
#include "tests/portals4/interface.hpp"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "tests/portals4/progress.hpp"

namespace opal::test::portals4 {
namespace {

std::uint64_t setting(const char* name, std::uint64_t otherwise, std::uint64_t maximum) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') return otherwise;
  return std::clamp<std::uint64_t>(std::strtoull(text, nullptr, 0), 1, maximum);
}

ptl_ni_limits_t limits_of_environment() {
  ptl_ni_limits_t limits{};
  limits.max_entries = static_cast<int>(setting("OPAL_PORTALS4_DOUBLE_MAX_ENTRIES", 4096, 1U << 30));
  limits.max_list_size = limits.max_entries;
  limits.max_mds = 1 << 16;
  limits.max_eqs = 1 << 12;
  limits.max_pt_index = kMaxPtIndex;
  limits.max_msg_size = setting("OPAL_PORTALS4_DOUBLE_MAX_MESSAGE", std::uint64_t{1} << 30, std::uint64_t{1} << 39);
  limits.max_atomic_size = 512;
  limits.max_fetch_atomic_size = 512;
  limits.max_waw_ordered_size = limits.max_msg_size;
  limits.max_war_ordered_size = limits.max_msg_size;
  limits.features = PTL_TOTAL_DATA_ORDERING;
  if (std::getenv("OPAL_PORTALS4_DOUBLE_NO_ATOMICS") == nullptr) limits.features |= PTL_COHERENT_ATOMICS;
  return limits;
}

bool wants(const MemoryDescriptor& descriptor, ptl_ni_fail_t fail) {
  return fail != PTL_NI_OK || (descriptor.options & PTL_MD_EVENT_SUCCESS_DISABLE) == 0;
}

}  // namespace

std::shared_ptr<Interface> Interface::open() {
  std::shared_ptr<Interface> opened{new Interface};
  opened->limits = limits_of_environment();
  opened->pid = static_cast<ptl_pid_t>(::getpid());
  opened->uid = ::getuid();
  opened->wake_ = Descriptor::event();
  Descriptor listener = Descriptor::stream_socket();
  if (!opened->wake_.is_valid() || !listener.is_valid() || !listen_as(listener, opened->pid)) return nullptr;

  // Signals are for the threads of the program.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::promise<void> started;
  const std::future<void> is_started = started.get_future();
  opened->thread_ =
      std::thread{[interface = opened.get(), socket = std::move(listener), started = std::move(started)]() mutable {
        ::pthread_setname_np(::pthread_self(), "portals4 double");
        Progress{*interface, std::move(socket)}.run(std::move(started));
      }};
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  is_started.wait();
  return opened;
}

Interface::~Interface() = default;

void Interface::close() {
  {
    const std::lock_guard lock{mutex};
    is_ending_ = true;
    for (const auto& [handle, queue] : queues) queue->freed = true;
    changed.notify_all();
    ::eventfd_write(wake_.get(), 1);
  }
  thread_.join();
}

void Interface::submit_locked(Operation operation) {
  if (operation.source != nullptr) ++operation.source->pending;
  if (operation.destination != nullptr) ++operation.destination->pending;
  submitted_.push_back(std::move(operation));
  if (std::exchange(is_woken_, true)) return;
  ::eventfd_write(wake_.get(), 1);
}

bool Interface::take_submitted(Queue<Operation>& operations) {
  const std::lock_guard lock{mutex};
  if (std::exchange(is_woken_, false)) {
    eventfd_t count = 0;
    ::eventfd_read(wake_.get(), &count);
  }
  operations.swap(submitted_);
  return !is_ending_;
}

void Interface::report_sent(const Operation& operation, ptl_ni_fail_t fail) {
  if (operation.source == nullptr) return;
  const std::lock_guard lock{mutex};
  MemoryDescriptor& source = *operation.source;
  if (!wire::has_response(operation.request)) --source.pending;
  if ((source.options & PTL_MD_EVENT_SEND_DISABLE) != 0 || !wants(source, fail)) return;
  ptl_event_t event{};
  event.type = PTL_EVENT_SEND;
  event.user_ptr = operation.user_ptr;
  event.ni_fail_type = fail;
  event.mlength = fail == PTL_NI_OK ? operation.request.length : 0;
  push_locked(source.queue.get(), event);
}

void Interface::report_response(const Operation& operation, ptl_ni_fail_t fail, std::uint64_t mlength,
                                std::uint64_t offset) {
  const std::lock_guard lock{mutex};
  if (operation.source != nullptr) --operation.source->pending;
  if (operation.destination != nullptr) --operation.destination->pending;
  const bool is_reply = operation.destination != nullptr;
  const MemoryDescriptor& reported = is_reply ? *operation.destination : *operation.source;
  if (!wants(reported, fail)) return;
  ptl_event_t event{};
  event.type = is_reply ? PTL_EVENT_REPLY : PTL_EVENT_ACK;
  event.user_ptr = operation.user_ptr;
  event.ni_fail_type = fail;
  event.mlength = mlength;
  event.remote_offset = offset;
  push_locked(reported.queue.get(), event);
}

void Interface::push_locked(EventQueue* queue, const ptl_event_t& event) {
  if (queue == nullptr || queue->freed) return;
  // As in a ring: the newest event takes the place of the oldest.
  // PTL_EVENT_PT_DISABLED has a slot of its own, beside those that the program asked for.
  if (event.type != PTL_EVENT_PT_DISABLED && !queue->has_room(1) && !queue->events.empty()) {
    queue->events.pop_front();
    queue->has_gap = true;
  }
  queue->events.push_back(event);
  changed.notify_all();
}

PortalEntry* Interface::portal_locked(ptl_pt_index_t index) {
  return index < portals.size() && portals[index].is_allocated ? &portals[index] : nullptr;
}

}  // namespace opal::test::portals4
