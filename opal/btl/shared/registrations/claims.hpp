// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/registrations/claims.hpp — checks of an access at the initiator, against the bounds and rights that
// are copied in the handle.  They catch a mistake without a message.  The target's table, or its device, checks again.
#pragma once
#include "opal/btl/atomic.hpp"
#include "opal/btl/module.hpp"
#include "opal/btl/post.hpp"
#include "opal/btl/shared/registrations/registration_table.hpp"

namespace opal::btl {

/// Checks that [address, +size) is within [base, +length).  Errors: invalid_argument.
inline Result<void> check_bounds(std::uint64_t base, std::uint64_t length, std::uint64_t address,
                                 std::uint64_t size) noexcept {
  const std::uint64_t offset = address - base;
  if (address >= base && offset <= length && size <= length - offset) return {};
  return Error{Errc::invalid_argument, 0, "remote access: outside of the registration", address};
}

/// Checks that the handle `claims` covers [address, +size) with `wanted` rights.
/// Errors: invalid_argument (out of bounds), permission.
inline Result<void> check_claims(const SoftwareHandle& claims, std::uint64_t address, std::uint64_t size,
                                 Rights wanted) noexcept {
  OPAL_TRY(check_bounds(claims.base, claims.size, address, size));
  if (!includes(static_cast<Rights>(claims.rights), wanted)) {
    return Error{Errc::permission, 0, "remote access: the registration does not give this right", claims.rights};
  }
  return {};
}

/// The right that a put or get needs at the target.
constexpr Rights right_for(OperationKind kind) noexcept {
  return kind == OperationKind::put ? Rights::remote_write : Rights::remote_read;
}

/// Checks operation, type and alignment of an atomic.  Errors: not_supported, invalid_argument.
inline Result<void> check_request(const AtomicRequest& request) noexcept {
  if (!is_supported(request.op, request.type)) {
    return Error{Errc::not_supported, 0, "atomic: no such operation on this type"};
  }
  if (request.remote_address % size_of(request.type) == 0) return {};
  return Error{Errc::invalid_argument, 0, "atomic: address not aligned", request.remote_address};
}

/// Sets completion.error to `why` and returns `failed`.
inline Post refuse(Completion& completion, const Error& why) noexcept {
  completion.error = why;
  return Post::failed;
}

}  // namespace opal::btl
