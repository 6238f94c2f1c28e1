// SPDX-License-Identifier: Apache-2.0
// opal/mpool/shared_directory.hpp — which of this process's memory local peers could map: every open pool of shared
// memory, by address and by a number that never names another pool in this process.  A registration of memory that lies
// in a pool tells peers the number, and they ask for the descriptor when they first need it.
// Threads: all functions are safe from any thread.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "opal/core/bytes.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/fd.hpp"
#include "opal/memory/events/events.hpp"

namespace opal::mpool {

/// Number of the pool that holds all of [base, +size); 0: none does.  Without any pool one load.
OPAL_EXPORT std::uint32_t shared_pool_of(const void* base, std::size_t size) noexcept;

/// What a peer needs to map a pool.
struct SharedPoolAccess {
  Fd fd;               ///< a descriptor of the receiver's own
  std::uint64_t base;  ///< address here of the file's first byte
};
/// Errors: invalid_argument (no such pool, or not any more), limit_reached (no descriptor left), os.
OPAL_EXPORT Result<SharedPoolAccess> open_shared_pool(std::uint32_t number);

/// The entry of one pool, as long as the pool lives.  When the program unmaps or replaces a part of the pool's memory,
/// the file is no longer what is there: from then on no new registration is said to be in the pool.
class SharedDirectoryEntry final : public memory::Listener {
 public:
  /// `fd` stays the pool's.
  SharedDirectoryEntry(MutableBytes memory, int fd);
  SharedDirectoryEntry(const SharedDirectoryEntry&) = delete;
  SharedDirectoryEntry& operator=(const SharedDirectoryEntry&) = delete;
  ~SharedDirectoryEntry();

  void released(memory::Range range) noexcept override;

 private:
  const memory::Range memory_;
  std::atomic<bool> whole_{false};
  std::uint32_t number_;
};

}  // namespace opal::mpool
