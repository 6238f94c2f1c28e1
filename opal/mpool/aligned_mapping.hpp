// SPDX-License-Identifier: Apache-2.0
// opal/mpool/aligned_mapping.hpp — mappings that begin at a multiple of more than a page.
// Threads: no shared state.  The result owns the range like any Mapping.
#pragma once
#include <cstddef>

#include "opal/core/result.hpp"
#include "opal/core/system/mapping.hpp"

namespace opal::mpool {

/// mmap()s `size` bytes readable and writable at a multiple of `alignment` (a power of two, at least a page) with
/// mmap's `flags` and `fd` (-1 for anonymous memory).  Errors: no_memory, os.
Result<Mapping> map_aligned(std::size_t size, std::size_t alignment, int flags, int fd) noexcept;

/// Bytes of a base page of this machine.
std::size_t base_page_size() noexcept;

}  // namespace opal::mpool
