// SPDX-License-Identifier: Apache-2.0
// The C interface to completion counters and completion queues.
#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "opal/am/completion_counter.hpp"
#include "opal/am/completion_queue.hpp"
#include "opal/capi/internal.hpp"

using namespace opal::capi;
using opal::Error;
using opal::Post;

struct opal_counter {
  explicit opal_counter(opal::am::Context& context) noexcept : counter(context) {}
  opal::am::CompletionCounter counter;
};

struct opal_queue {
  /// The completion that a program posts with, and the queue's entry for the end of that operation.
  struct Slot {
    opal_completion_t completion;  // first: its address is the slot's
    opal::Completion* entry;
  };
  static opal::Completion& entry_of(opal_completion_t& completion) noexcept {
    return *reinterpret_cast<Slot&>(completion).entry;
  }

  opal_queue(opal::am::Context& context, std::size_t capacity) : queue(context, capacity), slots(capacity) {}

  opal::am::CompletionQueue queue;
  std::vector<Slot> slots;  // one for each entry of the queue
};

namespace {

std::size_t to_entries(std::span<const opal::am::CompletionQueue::Entry> ended, opal_queue_entry_t* entries) noexcept {
  for (const auto& entry : ended) {
    *entries++ = {entry.user, entry.error.code == opal::Errc{} ? OPAL_OK : to_status(entry.error.code), 0};
  }
  return ended.size();
}

constexpr std::size_t kMostEntries = 64;  // that one call returns

}  // namespace

extern "C" {

opal_status_t opal_counter_create(opal_context_t* context, opal_counter_t** counter) noexcept {
  if (context == nullptr || counter == nullptr)
    return misuse("opal_counter_create: a context, and somewhere to put the counter are needed");
  *counter = std::make_unique<opal_counter>(context_of(*context)).release();
  return OPAL_OK;
}

void opal_counter_destroy(opal_counter_t* counter) noexcept { const std::unique_ptr<opal_counter> end{counter}; }

void opal_counter_attach(opal_counter_t* counter, opal_completion_t* completion) noexcept {
  if (counter == nullptr || completion == nullptr) return;
  completion->user = counter;
  completion->fn = [](opal_completion_t* self) {
    static_cast<opal_counter*>(self->user)->counter.finish(Error{to_code(self->status)});
  };
}

opal_status_t opal_counter_count(opal_counter_t* counter, opal_status_t posted) noexcept {
  if (counter == nullptr) return misuse("opal_counter_count: a counter is needed");
  const opal::am::Lock::Guard guard{counter->counter.context().lock()};
  if (posted < 0) counter->counter.error = Error{to_code(posted)};
  if (posted <= OPAL_DONE) (void)counter->counter.count(posted == OPAL_DONE ? Post::done : Post::failed);
  return posted;
}

uint64_t opal_counter_ended(const opal_counter_t* counter) noexcept {
  return counter != nullptr ? counter->counter.ended() : 0;
}

uint64_t opal_counter_failures(const opal_counter_t* counter) noexcept {
  return counter != nullptr ? counter->counter.failures() : 0;
}

opal_status_t opal_counter_wait(opal_counter_t* counter, uint64_t count, int timeout_ms) noexcept {
  if (counter == nullptr) return misuse("opal_counter_wait: a counter is needed");
  const auto all = counter->counter.wait_for(count, std::chrono::milliseconds{timeout_ms});
  return all ? OPAL_OK : fail(all.error());
}

opal_status_t opal_queue_create(opal_context_t* context, size_t capacity, opal_queue_t** queue) noexcept {
  if (context == nullptr || capacity == 0 || queue == nullptr) {
    return misuse("opal_queue_create: a context, a capacity, and somewhere to put the queue are needed");
  }
  *queue = std::make_unique<opal_queue>(context_of(*context), capacity).release();
  return OPAL_OK;
}

void opal_queue_destroy(opal_queue_t* queue) noexcept { const std::unique_ptr<opal_queue> end{queue}; }

opal_completion_t* opal_queue_take(opal_queue_t* queue, void* user) noexcept {
  if (queue == nullptr) return nullptr;
  opal::Completion* const entry = queue->queue.take(user);
  if (entry == nullptr) return nullptr;
  opal_queue::Slot& slot = queue->slots[queue->queue.index_of(*entry)];
  slot = {{}, entry};
  slot.completion.fn = [](opal_completion_t* self) {
    opal_queue::entry_of(*self).finish(Error{to_code(self->status)});
  };
  return &slot.completion;
}

opal_status_t opal_queue_settle(opal_queue_t* queue, opal_completion_t* completion, opal_status_t posted) noexcept {
  if (queue == nullptr || completion == nullptr)
    return misuse("opal_queue_settle: a queue and its completion are needed");
  if (posted == OPAL_QUEUED) return posted;  // the slot may be in use for another operation already
  opal::Completion& entry = opal_queue::entry_of(*completion);
  entry.error = Error{to_code(posted)};
  const Post post = posted == OPAL_AGAIN ? Post::again : posted == OPAL_DONE ? Post::done : Post::failed;
  return queue->queue.settle(entry, post) == Post::again ? OPAL_AGAIN : OPAL_QUEUED;
}

size_t opal_queue_poll(opal_queue_t* queue, opal_queue_entry_t* entries, size_t count) noexcept {
  if (queue == nullptr || entries == nullptr) return 0;
  opal::am::CompletionQueue::Entry ended[kMostEntries];
  return to_entries({ended, queue->queue.poll({ended, std::min(count, kMostEntries)})}, entries);
}

size_t opal_queue_wait(opal_queue_t* queue, opal_queue_entry_t* entries, size_t count, int timeout_ms) noexcept {
  if (queue == nullptr || entries == nullptr || count == 0) return 0;
  opal::am::CompletionQueue::Entry ended[kMostEntries];
  const std::chrono::milliseconds timeout{timeout_ms};
  return to_entries({ended, queue->queue.wait({ended, std::min(count, kMostEntries)}, timeout)}, entries);
}

}  // extern "C"
