// SPDX-License-Identifier: Apache-2.0
// opal/btl/post.hpp — the answer of a post, and the completion of a queued one.
// Nothing here allocates.  The caller owns a Completion, which must outlive the operation.
#pragma once
#include <cstdint>

#include "opal/core/error.hpp"

namespace opal {

/// The answer of every post.
enum class [[nodiscard]] Post : std::uint8_t{
    done,    ///< finished; buffers are reusable, no completion will be called
    queued,  ///< accepted; progress() calls the completion exactly once, with or without an error
    again,   ///< not accepted for want of resources; nothing happened: call progress() and try again
    failed,  ///< not accepted, and trying again is useless: see completion.error, or endpoint.error() if the post has
             ///< no completion
};

/// Called when a queued operation ends.  A request embeds or derives from it and finds itself by static_cast or offset.
struct Completion {
  using Fn = void (*)(Completion& self) noexcept;

  Fn fn = nullptr;  ///< runs inside progress(); may post, must not block or call progress(); may end *this's lifetime
  Error error{};    ///< set before fn runs and before a post returns `failed`

  [[nodiscard]] bool ok() const noexcept { return error.code == Errc{}; }
  /// Ends the operation: records the error (none by default) and calls fn.
  void finish(const Error& why = {}) noexcept {
    error = why;
    if (fn != nullptr) fn(*this);
  }
};

}  // namespace opal
