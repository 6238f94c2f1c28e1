// SPDX-License-Identifier: Apache-2.0
// opal/core/system/memory_file.hpp — nameless memory that processes share by passing its descriptor: sparse, of a size
// that no process can change any more, so that no mapping of it ever ends short.  Threads: functions, safe from any.
#pragma once
#include <cstddef>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/fd.hpp"

namespace opal {

/// `size` bytes without memory behind them; `name` shows up in /proc/PID/maps; `flags` (MFD_*) are added to
/// MFD_CLOEXEC | MFD_ALLOW_SEALING.  Errors: limit_reached (descriptors), no_memory, no_space, os.
OPAL_EXPORT Result<Fd> create_memory_file(const char* name, std::size_t size, unsigned flags = 0) noexcept;

/// Its size, when `fd` is such a file; mapping another one may cause a SIGBUS at any time.  Errors: protocol, os.
OPAL_EXPORT Result<std::size_t> size_of_memory_file(int fd) noexcept;

/// An error of the system about memory files, sorted by what can be done about it.
Error memory_file_error(int error, const char* where, std::uint64_t detail) noexcept;

}  // namespace opal
