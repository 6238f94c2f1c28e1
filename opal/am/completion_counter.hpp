// SPDX-License-Identifier: Apache-2.0
// opal/am/completion_counter.hpp — one completion object for any number of operations of a Context; it counts their
// ends.
//     CompletionCounter counter{context};
//     for (...) counter.count(endpoint.put_or_queue(..., counter));
//     counter.wait_for(posted, timeout);
// Lifetime: the counter outlives its operations and is destroyed before its Context.
// Threads: as the Context's thread level allows.
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

  /// Counts the operation as ended if its post returned `done` or `failed`; `failed` records the counter's `error`.
  /// Requires: `posted` is the result of the latest post with this counter.  If several threads post with it, each
  /// holds Context::lock() from the post to the end of count(), since the counter has one `error`.  Returns `posted`.
  Post count(Post posted) noexcept {
    const Lock::Guard guard{context_.lock()};
    if (posted == Post::done) add({});
    if (posted == Post::failed) add(error);
    // progress() has no part in this end, so nothing else wakes a thread in wait_for().
    if (context_.lock().real() && (posted == Post::done || posted == Post::failed)) context_.wake_sleepers();
    return posted;
  }

  /// Number of operations that have ended since construction, with or without an error.
  [[nodiscard]] std::uint64_t ended() const noexcept {
    const Lock::Guard guard{context_.lock()};
    return ended_;
  }
  /// Number of operations that ended with an error.
  [[nodiscard]] std::uint64_t failures() const noexcept {
    const Lock::Guard guard{context_.lock()};
    return failures_;
  }
  /// The error of the first operation that failed; code 0 if none has.
  [[nodiscard]] Error first_error() const noexcept {
    const Lock::Guard guard{context_.lock()};
    return first_error_;
  }

  /// Makes progress until `count` operations have ended since construction, at most for `timeout` (negative: no limit).
  /// Requires: the caller is not inside a handler or completion.  Errors: timed_out, else first_error().
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
  std::uint64_t ended_ = 0;  // guarded by the Context's lock, as the next two members
  std::uint64_t failures_ = 0;
  Error first_error_{};
};

}  // namespace opal::am
