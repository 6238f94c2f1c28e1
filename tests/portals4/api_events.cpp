// SPDX-License-Identifier: Apache-2.0
// Entry points: event queues.
#include <chrono>
#include <utility>
#include <vector>

#include "tests/portals4/library.hpp"

using namespace opal::test::portals4;

namespace {

/// Takes the first event of a queue.  PTL_EQ_EMPTY: there is none.
int take(EventQueue& queue, ptl_event_t* event) {
  if (queue.freed) return PTL_INTERRUPTED;
  if (queue.events.empty()) return PTL_EQ_EMPTY;
  *event = queue.events.front();
  queue.events.pop_front();
  return std::exchange(queue.has_gap, false) ? PTL_EQ_DROPPED : PTL_OK;
}

}  // namespace

int PtlEQAlloc(ptl_handle_ni_t ni_handle, ptl_size_t count, ptl_handle_eq_t* eq_handle) {
  Call call{ni_handle};
  if (call.result() != PTL_OK) return call.result();
  if (count == 0 || eq_handle == nullptr) return PTL_ARG_INVALID;
  if (call->queues.size() >= static_cast<std::size_t>(call->limits.max_eqs)) return PTL_NO_SPACE;
  const auto queue = std::make_shared<EventQueue>();
  queue->capacity = count;
  *eq_handle = call->new_handle_locked(4);
  call->queues.emplace(*eq_handle, queue);
  return PTL_OK;
}

int PtlEQFree(ptl_handle_eq_t eq_handle) {
  Call call;
  if (call.result() != PTL_OK) return call.result();
  const auto queue = find(call->queues, eq_handle);
  if (queue == nullptr) return PTL_ARG_INVALID;
  queue->freed = true;
  call->queues.erase(eq_handle);
  call->changed.notify_all();
  return PTL_OK;
}

int PtlEQGet(ptl_handle_eq_t eq_handle, ptl_event_t* event) {
  Call call;
  if (call.result() != PTL_OK) return call.result();
  const auto queue = find(call->queues, eq_handle);
  return queue == nullptr || event == nullptr ? PTL_ARG_INVALID : take(*queue, event);
}

int PtlEQWait(ptl_handle_eq_t eq_handle, ptl_event_t* event) {
  unsigned which = 0;
  return PtlEQPoll(&eq_handle, 1, PTL_TIME_FOREVER, event, &which);
}

int PtlEQPoll(const ptl_handle_eq_t* eq_handles, unsigned int size, ptl_time_t timeout, ptl_event_t* event,
              unsigned int* which) {
  Call call;
  if (call.result() != PTL_OK) return call.result();
  if (eq_handles == nullptr || size == 0 || event == nullptr || which == nullptr) return PTL_ARG_INVALID;
  std::vector<std::shared_ptr<EventQueue>> queues;
  for (unsigned index = 0; index < size; ++index) {
    queues.push_back(find(call->queues, eq_handles[index]));
    if (queues.back() == nullptr) return PTL_ARG_INVALID;
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds{timeout};
  while (true) {
    for (unsigned index = 0; index < size; ++index) {
      const int result = take(*queues[index], event);
      if (result == PTL_EQ_EMPTY) continue;
      *which = index;
      return result;
    }
    if (timeout == PTL_TIME_FOREVER) {
      call->changed.wait(call.lock());
    } else if (std::chrono::steady_clock::now() >= deadline) {
      return PTL_EQ_EMPTY;
    } else {
      call->changed.wait_until(call.lock(), deadline);
    }
  }
}
