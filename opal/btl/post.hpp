// SPDX-License-Identifier: Apache-2.0
// opal/btl/post.hpp — what a post answers, and how a queued one tells its end.
// Nothing here allocates; a Completion is owned by the caller and must outlive the operation it was given to.
#pragma once
#include <cstdint>

#include "opal/core/error.hpp"

namespace opal {

/// The answer of every operation that is posted.
enum class [[nodiscard]] Post : std::uint8_t{
    done,    ///< finished; buffers are reusable, no completion will be called
    queued,  ///< accepted; the completion is called exactly once, from progress(), later or with an error
    again,   ///< nothing happened, the caller still owns everything: call progress() and try again
    failed,  ///< nothing happened and trying again is useless: see completion.error, or endpoint.error() if there is
             ///< none
};

/// Told when a queued operation ends.  Embed it in your own request and get back to it by a static_cast or offset.
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
