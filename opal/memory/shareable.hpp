// SPDX-License-Identifier: Apache-2.0
// opal/memory/shareable.hpp — private memory that local peers can map.  Large private anonymous mappings, malloc's
// among them, become shared mappings of one sealed memory file, at the address that belongs to their place in the file,
// so that one descriptor and one base describe all of them.  To the program they stay private: a fork copies them, what
// is emptied reads as zeros, what cannot be shared is left as it was.  One arena per process, which ends in a child.
// Threads: everything from any thread.  perform() and fork() run inside malloc and in signal handlers: no lock, no
// allocation, no libc.
#pragma once
#include <cstddef>
#include <cstdint>

#include "opal/core/export.hpp"
#include "opal/core/fd.hpp"
#include "opal/core/result.hpp"
#include "opal/memory/config.hpp"
#include "opal/memory/mapping_calls.hpp"
#include "opal/memory/range.hpp"

namespace opal::memory::shareable {

/// From now on mappings of config.shareable_from bytes and more are made shareable.  Once per process, while it has one
/// thread and after the patcher has started.  Tries a mapping and a fork.  Errors: invalid_argument (less than 64 KiB),
/// not_supported (the system reserves memory strictly; calls or forks go unseen), no_space (addresses), limit_reached,
/// no_memory, os.
OPAL_EXPORT Result<void> enable(const Config& config) noexcept;

/// True when all of `range` can be mapped by peers.  A load where nothing is shareable.
[[nodiscard]] OPAL_EXPORT bool holds(Range range) noexcept;

/// What a peer needs to map it.
struct Access {
  Fd fd;                    ///< of the receiver's own
  std::uintptr_t base = 0;  ///< address here of the file's first byte
};
/// Errors: invalid_argument (nothing is shareable here), limit_reached (descriptors), os.
OPAL_EXPORT Result<Access> access() noexcept;

/// True when patched calls have to come to perform() and fork().
[[nodiscard]] bool active() noexcept;

/// Carries out a watched call other than a fork as the program means it.  Only while active().
long perform(const SystemCall& call) noexcept;

/// Carries out a fork or clone without shared memory; -ENOMEM when there is no memory for the child's copies.  Only
/// while active().
long fork(const SystemCall& call) noexcept;

}  // namespace opal::memory::shareable
