// SPDX-License-Identifier: Apache-2.0
// opal/core/error.hpp — error codes, and an error as 24 trivially copyable bytes.
// An Error does not allocate, so data paths may make and copy it.  Threads: a value, no shared state.
#pragma once
#include <cstdint>
#include <string>
#include <type_traits>

#include "opal/core/export.hpp"

namespace opal {

/// Error codes, grouped by what the caller can do.
enum class Errc : std::uint8_t {
  // Try again later.
  busy = 1,
  timed_out,
  // Free something first.
  no_memory,
  no_space,
  limit_reached,
  // Fix the call.
  invalid_argument,
  not_supported,
  permission,
  // The peer.
  unreachable,
  peer_gone,
  protocol,
  version_mismatch,
  // Stop.
  canceled,
  os,
  internal,
};

/// One error: its code, and for messages the failed call or check.
struct Error {
  Errc code;
  int os_errno = 0;          ///< errno of the failed system call; 0 if none failed
  const char* where = "";    ///< the failed call or check; a string literal, or a result of kept_for_ever()
  std::uint64_t detail = 0;  ///< meaning given by `where` (a size, an address, a tag ...)
};
static_assert(std::is_trivially_copyable_v<Error> && sizeof(Error) == 24, "errors travel by value on data paths");

/// The name of the enumerator, "peer_gone"; "unknown" for any other value.  Static lifetime.
OPAL_EXPORT const char* name(Errc code) noexcept;

/// A copy of `text` with static lifetime, for an Error::where that contains a user's input.  Equal texts share one
/// copy. After 1024 different texts the result is a fixed text that refers to the log.
OPAL_EXPORT const char* kept_for_ever(const std::string& text);

/// One line for users: `where`, code, errno text and detail.  Allocates: for cold paths only.
OPAL_EXPORT std::string to_string(const Error& error);

}  // namespace opal
