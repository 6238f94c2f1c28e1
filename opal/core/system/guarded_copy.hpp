// SPDX-License-Identifier: Apache-2.0
// opal/core/system/guarded_copy.hpp — accesses to memory that may be unmapped or protected meanwhile: memory that a
// peer names by a handle, and mapped memory of a peer.  A SIGSEGV or SIGBUS inside the named range ends the access,
// which then returns false.  Every other fault goes to the handler that was installed before.  The first use in a
// process installs the handlers.  If the program has replaced them, or the calling thread blocks these signals,
// guarded_copy() copies with process_vm_writev() to its own process, which is slower.
// Threads: any.  Accesses may nest, also in a signal handler that interrupts an access.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "opal/core/export.hpp"

namespace opal {

namespace detail {
/// Calls `access(argument)`; false if that faulted in [memory, +size).
/// Requires: only this range can fault, and `access` has no objects with destructors, as a fault jumps out of it.
OPAL_EXPORT bool run_guarded(const void* memory, std::size_t size, void (*access)(void*), void* argument) noexcept;
}  // namespace detail

/// Copies `size` bytes.  False: a part of `to` or `from` is not accessible; it is unspecified which bytes were copied.
[[nodiscard]] OPAL_EXPORT bool guarded_copy(std::byte* to, const std::byte* from, std::size_t size) noexcept;

/// Calls `access()`, for accesses that are not copies, such as atomics.  False if it faulted in [memory, +size).
/// Unlike guarded_copy() it has no fallback: if the handlers were replaced or the signals are blocked, a fault ends the
/// process.
template <class Access>
[[nodiscard]] bool guarded_access(const void* memory, std::size_t size, Access access) noexcept {
  return detail::run_guarded(
      memory, size, [](void* argument) { (*static_cast<Access*>(argument))(); }, std::addressof(access));
}

}  // namespace opal
