// SPDX-License-Identifier: Apache-2.0
// opal/mpool/shared_directory.hpp — pools of memory that local peers can map, and the directory of the open ones.  The
// directory finds a pool by an address or by its number, which no other pool of this process ever gets.  A registration
// of memory in a pool tells peers the number; a peer requests the descriptor when it first needs it.
// Threads: all functions are safe from any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/fd.hpp"
#include "opal/mpool/pool.hpp"

namespace opal::mpool {

/// Opens a pool of shared memory, which is in the directory until its destruction.  `huge`: hugetlb pages if one is
/// free, else transparent ones, which it logs once.  After the program has unmapped or replaced a part of the pool's
/// memory, the file does not have the content of that part: shared_pool_of() then does not return this pool any more.
/// Errors: no_memory, limit_reached, os.
Result<std::unique_ptr<Pool>> open_shared_memory_pool(const Config& config, bool huge);

/// The number of the pool that contains all of [base, +size); 0: none does.  Cost: one load if there is no pool.
OPAL_EXPORT std::uint32_t shared_pool_of(const void* base, std::size_t size) noexcept;

/// What a peer needs to map a pool.
struct SharedPoolAccess {
  Fd fd;               ///< a duplicate of the pool's descriptor
  std::uint64_t base;  ///< address of the file's first byte in this process
};
/// What a peer needs to map pool `number`.  Errors: invalid_argument (no such pool is open), limit_reached
/// (descriptors), os.
OPAL_EXPORT Result<SharedPoolAccess> open_shared_pool(std::uint32_t number);

}  // namespace opal::mpool
