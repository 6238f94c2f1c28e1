// SPDX-License-Identifier: Apache-2.0
// opal/core/error.hpp — what went wrong, in 24 trivially copyable bytes.
// An Error never allocates, so it may be made and copied on a data path.  Threads: a value, no shared state.
#pragma once
#include <cstdint>
#include <string>
#include <type_traits>

#include "opal/core/export.hpp"

namespace opal {

/// At most 16 codes, grouped by what the caller can do about them.
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

/// One error: the code to act on, errno if the kernel said one, and the exact place.
struct Error {
  Errc code;
  int os_errno = 0;          ///< 0 when no system call failed
  const char* where = "";    ///< a string literal naming the call or the check; never freed
  std::uint64_t detail = 0;  ///< meaning given by `where` (a size, an address, a tag ...)
};
static_assert(std::is_trivially_copyable_v<Error> && sizeof(Error) == 24, "errors travel by value on data paths");

/// The code's stable lower-case name, e.g. "peer_gone".  Never null; static lifetime.
OPAL_EXPORT const char* name(Errc code) noexcept;

/// `text`, kept for ever, for Error::where of errors that name what a user wrote: few, and of them only so many.
OPAL_EXPORT const char* kept_for_ever(const std::string& text);

/// One line for people: code, where, errno text and detail.  Allocates: cold paths only.
OPAL_EXPORT std::string to_string(const Error& error);

}  // namespace opal
