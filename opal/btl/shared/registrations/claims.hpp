// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/registrations/claims.hpp — what a handle claims of itself, looked at by the initiator, so that an
// honest mistake costs no connection; and the answer when they do not cover what was asked.  The owner's table, or its
// device, is what counts.
#pragma once
#include "opal/btl/post.hpp"
#include "opal/btl/shared/registrations/registration_table.hpp"

namespace opal::btl {

/// Whether the claims cover [address, +size) with `wanted` rights.  Errors: invalid_argument, permission.
inline Result<void> check_claims(const SoftwareHandle& claims, std::uint64_t address, std::uint64_t size,
                                 Rights wanted) noexcept {
  const std::uint64_t offset = address - claims.base;
  if (address < claims.base || offset > claims.size || size > claims.size - offset) {
    return Error{Errc::invalid_argument, 0, "remote access: outside of the registration", address};
  }
  if (!includes(static_cast<Rights>(claims.rights), wanted)) {
    return Error{Errc::permission, 0, "remote access: the registration does not give this right", claims.rights};
  }
  return {};
}

/// The answer of a post that is refused for good.
inline Post refuse(Completion& completion, const Error& why) noexcept {
  completion.error = why;
  return Post::failed;
}

}  // namespace opal::btl
