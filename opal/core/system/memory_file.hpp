// SPDX-License-Identifier: Apache-2.0
// opal/core/system/memory_file.hpp — memory files (memfd) that processes share by passing the descriptor.  A file is
// sparse, and seals fix its size: no process can shrink it below a mapping, so no mapping of it causes a SIGBUS.
// Threads: safe from any thread.
#pragma once
#include <cstddef>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/fd.hpp"

namespace opal {

/// Creates a file of `size` bytes; no memory is committed.  `name` appears in /proc/PID/maps.  `flags` (MFD_*) are
/// added to MFD_CLOEXEC | MFD_ALLOW_SEALING.  Errors: limit_reached (descriptors), no_memory, no_space, os.
OPAL_EXPORT Result<Fd> create_memory_file(const char* name, std::size_t size, unsigned flags = 0) noexcept;

/// The size of the memory file `fd`, which a peer has sent.  Errors: protocol (not a memory file, its size is not
/// sealed, or the size is not a multiple of 4096; a mapping of it could cause a SIGBUS), os.
OPAL_EXPORT Result<std::size_t> size_of_memory_file(int fd) noexcept;

/// The Error for `error`, an errno of a call on a memory file.
Error memory_file_error(int error, const char* where, std::uint64_t detail) noexcept;

}  // namespace opal
