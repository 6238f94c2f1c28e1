// SPDX-License-Identifier: Apache-2.0
// opal/am/completion_counter.hpp — one completion for any number of operations of a Context, which it counts.
//     CompletionCounter counter{context};
//     for (...) counter.count(endpoint.put_or_queue(..., counter));
//     counter.wait_for(posted, timeout);
// Lifetime: it outlives its operations, and ends before its Context.
// Threads: those of the Context's thread level.
#pragma once
#include <chrono>
#include <cstdint>

#include "opal/am/context.hpp"
#include "opal/btl/post.hpp"

namespace opal::am {

class CompletionCounter : public Completion {
 public:
  explicit CompletionCounter(Context& context) noexcept : context_(context) {
    fn = [](Completion& self) noexcept { static_cast<CompletionCounter&>(self).add(self.error); };
  }
  CompletionCounter(const CompletionCounter&) = delete;
  CompletionCounter& operator=(const CompletionCounter&) = delete;

  [[nodiscard]] Context& context() const noexcept { return context_; }

  /// Counts the answer of a post that was given this counter: `done` and `failed` end the operation, the latter with
  /// the counter's `error`.  Returns the answer.  With several threads that post, hold Context::lock() from the post
  /// on.
  Post count(Post answer) noexcept {
    const Lock::Guard guard{context_.lock()};
    if (answer == Post::done) add({});
    if (answer == Post::failed) add(error);
    return answer;
  }

  /// Operations that have ended, with or without an error.
  [[nodiscard]] std::uint64_t ended() const noexcept {
    const Lock::Guard guard{context_.lock()};
    return ended_;
  }
  /// Those that ended with an error.
  [[nodiscard]] std::uint64_t failures() const noexcept {
    const Lock::Guard guard{context_.lock()};
    return failures_;
  }
  /// The error of the first one that failed.
  [[nodiscard]] Error first_error() const noexcept {
    const Lock::Guard guard{context_.lock()};
    return first_error_;
  }

  /// Makes progress until `count` operations have ended since the counter was made, at most for `timeout` (negative:
  /// for ever).  Not from inside a handler or completion.  Errors: timed_out, the first error of an operation.
  Result<void> wait_for(std::uint64_t count, std::chrono::milliseconds timeout) noexcept {
    if (!context_.wait_until([&] { return ended_ >= count; }, timeout)) {
      return Error{Errc::timed_out, 0, "CompletionCounter::wait_for", count};
    }
    if (const Error why = first_error(); why.code != Errc{}) return why;
    return {};
  }

 private:
  void add(const Error& why) noexcept {
    if (why.code != Errc{} && failures_++ == 0) first_error_ = why;
    ++ended_;
  }

  Context& context_;
  std::uint64_t ended_ = 0;  // this and the next two under the Context's lock
  std::uint64_t failures_ = 0;
  Error first_error_{};
};

}  // namespace opal::am
