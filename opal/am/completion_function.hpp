// SPDX-License-Identifier: Apache-2.0
// opal/am/completion_function.hpp — a completion that calls a lambda, without an allocation.
//     CompletionFunction end{[&](const Error& error) noexcept { ... }};
//     endpoint.put(..., end);
// The caller owns it and keeps it until the function has run: once per operation that returned `queued`.
// Threads: as Completion.
#pragma once
#include <concepts>
#include <utility>

#include "opal/btl/post.hpp"

namespace opal::am {

template <class Function>
requires std::invocable<Function&, const Error&>
class CompletionFunction : public Completion {
 public:
  explicit CompletionFunction(Function function) noexcept : function_(std::move(function)) {
    fn = [](Completion& self) noexcept {
      // Copy the error: the function may destroy *this.
      const Error why = self.error;
      static_cast<CompletionFunction&>(self).function_(why);
    };
  }
  CompletionFunction(const CompletionFunction&) = delete;
  CompletionFunction& operator=(const CompletionFunction&) = delete;

 private:
  Function function_;
};

}  // namespace opal::am
