// SPDX-License-Identifier: Apache-2.0
// opal/am/completion_queue.hpp — a queue of ended operations of a Context, each with a pointer chosen by the program.
//     CompletionQueue queue{context, 128};
//     queue.post(&request, [&](Completion& end) { return endpoint.get_or_queue(..., end); });
//     queue.wait(entries, timeout);
// The capacity bounds the operations that are in flight or not polled yet.  Only the constructor allocates.
// Lifetime: the queue outlives its operations and is destroyed before its Context.
// Threads: as the Context's thread level allows.
#pragma once
#include <chrono>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "opal/am/context.hpp"
#include "opal/btl/post.hpp"

namespace opal::am {

class CompletionQueue {
 public:
  /// An operation that has ended.
  struct Entry {
    void* user;
    Error error;  ///< code 0 if the operation succeeded
  };

  CompletionQueue(Context& context, std::size_t capacity) : context_(context), slots_(capacity) {
    for (Slot& slot : slots_) {
      slot.queue = this;
      slot.fn = [](Completion& self) noexcept {
        auto& ended = static_cast<Slot&>(self);
        ended.queue->append(ended);
      };
      slot.next = std::exchange(free_, &slot);
    }
  }
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  /// Posts an operation: `operation(completion)` calls a post function with that completion and returns its result.
  /// Returns `queued`: poll() delivers one entry, also if the post returned done or failed.
  /// Returns `again`: the post returned again, or the queue is full until poll() takes entries.
  template <class Operation>
  Post post(void* user, Operation&& operation) noexcept {
    Completion* const slot = take(user);
    return slot != nullptr ? settle(*slot, operation(*slot)) : Post::again;
  }

  /// First half of post(): returns the completion for one operation, null if the queue is full.  The caller then posts
  /// with it and passes the post's result to settle(), which returns as post() does.
  [[nodiscard]] Completion* take(void* user) noexcept {
    const Lock::Guard guard{context_.lock()};
    if (free_ == nullptr) return nullptr;
    Slot* const slot = std::exchange(free_, free_->next);
    slot->user = user;
    slot->error = {};
    return slot;
  }
  /// A number below the capacity: no other completion of this queue has the same.
  [[nodiscard]] std::size_t index_of(const Completion& taken) const noexcept {
    return static_cast<std::size_t>(&static_cast<const Slot&>(taken) - slots_.data());
  }
  Post settle(Completion& completion, Post posted) noexcept {
    if (posted == Post::queued) return posted;  // the slot may be in use for another operation already
    const Lock::Guard guard{context_.lock()};
    auto& slot = static_cast<Slot&>(completion);
    if (posted == Post::again) {
      slot.next = std::exchange(free_, &slot);
      return posted;
    }
    if (posted == Post::done) slot.error = {};
    append(slot);
    // progress() has no part in this end, so nothing else wakes a thread in wait().
    if (context_.lock().real()) context_.wake_sleepers();
    return Post::queued;
  }

  /// Moves entries to the front of `entries`, in the order in which the operations ended.  Returns their number.  Makes
  /// no progress.
  std::size_t poll(std::span<Entry> entries) noexcept {
    const Lock::Guard guard{context_.lock()};
    std::size_t count = 0;
    for (; count < entries.size() && first_ != nullptr; ++count) {
      Slot* const slot = std::exchange(first_, first_->next);
      entries[count] = {slot->user, slot->error};
      slot->next = std::exchange(free_, slot);
    }
    return count;
  }
  /// Makes progress until an entry exists, at most for `timeout` (negative: no limit), then polls.  Returns 0 if
  /// the time is over.  Requires: the caller is not inside a handler or completion.
  std::size_t wait(std::span<Entry> entries, std::chrono::milliseconds timeout) noexcept {
    (void)context_.wait_until([this] { return first_ != nullptr; }, timeout);
    return poll(entries);
  }

 private:
  struct Slot : Completion {
    CompletionQueue* queue = nullptr;
    void* user = nullptr;
    Slot* next = nullptr;
  };
  void append(Slot& slot) noexcept {
    slot.next = nullptr;
    if (first_ == nullptr) {
      first_ = &slot;
    } else {
      last_->next = &slot;
    }
    last_ = &slot;
  }

  Context& context_;
  std::vector<Slot> slots_;
  Slot* free_ = nullptr;   // this and the next two: under the Context's lock
  Slot* first_ = nullptr;  // list of ended operations, oldest first; last_ is its end
  Slot* last_ = nullptr;
};

}  // namespace opal::am
