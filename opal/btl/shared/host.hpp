// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/host.hpp — on which host and in which namespaces this process runs, for the addresses of transports.
#pragma once
#include <cstdint>

#include "opal/core/result.hpp"

namespace opal::btl {

/// The inode of a namespace of this process; `path`: "/proc/self/ns/net".  Errors: os.
Result<std::uint64_t> namespace_inode(const char* path);

/// A hash of the running kernel's boot_id and of the namespace at `path`, equal in all processes of that namespace.
/// Never 0.  Errors: os.
Result<std::uint64_t> identify_host(const char* path);
/// The same; a random number if the kernel does not give the two.
std::uint64_t host_number(const char* path) noexcept;

}  // namespace opal::btl
