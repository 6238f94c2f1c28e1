// SPDX-License-Identifier: Apache-2.0
// opal/core/system/guarded_copy.hpp — accesses to memory that may be gone or protected by the time it is touched: what
// a peer asks for by a handle, and pages of another process.  A SIGSEGV or SIGBUS inside the named range ends the
// access, which returns false; every other fault goes to the handler that the program had. The handlers are installed
// at the first use, once per process.  Where the program has replaced them since, or where the calling thread blocks
// these signals, the kernel copies (process_vm_writev to oneself): slower, as safe. Threads: any.  May nest, also in a
// signal handler that interrupts an access.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "opal/core/export.hpp"

namespace opal {

namespace detail {
/// Runs `access(argument)`, which touches nothing but [memory, +size) that could fault and leaves nothing to destroy.
OPAL_EXPORT bool run_guarded(const void* memory, std::size_t size, void (*access)(void*), void* argument) noexcept;
}  // namespace detail

/// memcpy.  False: part of one side cannot be touched; what has been copied is unspecified.
[[nodiscard]] OPAL_EXPORT bool guarded_copy(std::byte* to, const std::byte* from, std::size_t size) noexcept;

/// For accesses that are no copies, such as atomics: as guarded_copy(), but always under the handlers.
template <class Access>
[[nodiscard]] bool guarded_access(const void* memory, std::size_t size, Access access) noexcept {
  return detail::run_guarded(
      memory, size, [](void* argument) { (*static_cast<Access*>(argument))(); }, std::addressof(access));
}

}  // namespace opal
