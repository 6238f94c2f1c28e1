// SPDX-License-Identifier: Apache-2.0
// opal/mpool/shared_directory.hpp — pools of memory that local peers can map, and the directory of those that are open:
// by address and by a number that never names another pool in this process.  A registration of memory that lies in a
// pool tells peers the number, and they ask for the descriptor when they first need it.
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

/// A pool of shared memory, in the directory until its end.  With `huge`: hugetlb pages if one is free, else
/// transparent ones; says so once.  When the program unmaps or replaces a part of the pool's memory, the file is no
/// longer what is there: from then on no new registration is said to be in the pool.
Result<std::unique_ptr<Pool>> open_shared_memory_pool(const Config& config, bool huge);

/// Number of the pool that holds all of [base, +size); 0: none does.  Without any pool one load.
OPAL_EXPORT std::uint32_t shared_pool_of(const void* base, std::size_t size) noexcept;

/// What a peer needs to map a pool.
struct SharedPoolAccess {
  Fd fd;               ///< a descriptor of the receiver's own
  std::uint64_t base;  ///< address here of the file's first byte
};
/// Errors: invalid_argument (no such pool, or not any more), limit_reached (no descriptor left), os.
OPAL_EXPORT Result<SharedPoolAccess> open_shared_pool(std::uint32_t number);

}  // namespace opal::mpool
