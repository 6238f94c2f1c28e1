// SPDX-License-Identifier: Apache-2.0
// opal/btl/post.hpp — the result of a post, and the completion of a queued one.  Nothing here allocates.
// The caller owns a Completion, which must live until the operation has ended.
#pragma once
#include <cstdint>

#include "opal/core/error.hpp"

namespace opal {

/// The result of every post.
enum class [[nodiscard]] Post : std::uint8_t{
    done,    ///< finished; buffers are reusable, the completion is not called
    queued,  ///< accepted; the completion is called exactly once, with or without an error: as a rule in progress(),
             ///< else inside a post (also this one, before it returns), disconnect() or the destruction of the module
    again,   ///< not accepted for lack of a resource; nothing has happened: call progress() and try again
    failed,  ///< not accepted, and a retry is useless.  The reason: completion.error of a one-sided operation, else
             ///< endpoint.error()
};

/// Called when a queued operation ends.  A request derives from it or contains it; `fn` finds the request from `self`.
struct Completion {
  using Fn = void (*)(Completion& self) noexcept;

  Fn fn = nullptr;  ///< may post and may destroy the Completion; must not block or call progress(); null: none
  Error error{};    ///< set before fn runs, and before a one-sided post returns `failed`

  [[nodiscard]] bool ok() const noexcept { return error.code == Errc{}; }
  /// For transports: records the error (none by default) and calls fn.  *this may not exist afterwards.
  void finish(const Error& why = {}) noexcept {
    error = why;
    if (fn != nullptr) fn(*this);
  }
};

}  // namespace opal
