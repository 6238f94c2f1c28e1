// SPDX-License-Identifier: Apache-2.0
// opal/am/completion_queue.hpp — a queue of ended operations of a Context, each with a value of the program.
//     CompletionQueue queue{context, 128};
//     queue.post(&request, [&](Completion& end) { return endpoint.get_or_queue(..., end); });
//     queue.wait(entries, timeout);
// The capacity bounds the operations in flight and not yet polled; nothing is allocated after the constructor.
// Lifetime: it outlives its operations, and ends before its Context.
// Threads: those of the Context's thread level.
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
    Error error;  ///< of code 0 if it succeeded
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

  /// Posts an operation: `operation(completion)` calls a post with that completion and returns its answer.
  /// `queued`: there will be one entry, also if the operation is done at once, or fails.
  /// `again`: the post answered it, or the queue is full: poll().
  template <class Operation>
  Post post(void* user, Operation&& operation) noexcept {
    Completion* const slot = take(user);
    return slot != nullptr ? settle(*slot, operation(*slot)) : Post::again;
  }

  /// The two halves of post(): a completion for one operation, null if the queue is full; and the answer of its post.
  [[nodiscard]] Completion* take(void* user) noexcept {
    const Lock::Guard guard{context_.lock()};
    if (free_ == nullptr) return nullptr;
    Slot* const slot = std::exchange(free_, free_->next);
    slot->user = user;
    slot->error = {};
    return slot;
  }
  Post settle(Completion& completion, Post answer) noexcept {
    if (answer == Post::queued) return answer;  // it may have ended
    const Lock::Guard guard{context_.lock()};
    auto& slot = static_cast<Slot&>(completion);
    if (answer == Post::again) {
      slot.next = std::exchange(free_, &slot);
      return answer;
    }
    if (answer == Post::done) slot.error = {};
    append(slot);
    return Post::queued;
  }

  /// Takes entries, in the order in which the operations ended.  Returns their number.  Makes no progress.
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
  /// Makes progress until there is an entry, at most for `timeout` (negative: for ever), and then as poll().  Not from
  /// inside a handler or completion.
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
  Slot* free_ = nullptr;   // under the Context's lock, as the next two
  Slot* first_ = nullptr;  // ended, oldest first
  Slot* last_ = nullptr;
};

}  // namespace opal::am
