// SPDX-License-Identifier: Apache-2.0
// opal/memory/shareable_copy.hpp — private copies of shareable memory: for a forked child, and where a call needs
// memory that is private to the kernel as well.  Threads: any; asks the kernel without libc.
#pragma once
#include "opal/memory/process_maps.hpp"
#include "opal/memory/shareable_arena.hpp"

namespace opal::memory::shareable {

[[nodiscard]] inline bool failed(long result) noexcept { return result < 0 && result > -4096; }

/// The mappings of the arena's file, in order of address.
class ArenaMaps {
 public:
  explicit ArenaMaps(const Arena& arena) noexcept : arena_(arena) {}
  bool next(MapsEntry& entry) noexcept;
  /// The list could not be read to its end.
  [[nodiscard]] bool failed() const noexcept { return maps_.failed(); }

 private:
  const Arena& arena_;
  ProcessMaps maps_;
};

/// Rights of the one mapping that holds all of `range`; -1: there is no such.
int protection_of(const Arena& arena, Range range) noexcept;

/// A private mapping of `size` bytes with `protection` that begins with the arena's bytes at `range`, as many as fit.
/// Its address, or -errno: -ENOMEM.
long private_copy(const Arena& arena, Range range, std::size_t size, int protection) noexcept;

/// What of `range` is shareable becomes private in its place, with the same contents but for what other threads write
/// there meanwhile.  0 or -errno: -ENOMEM.
long make_private(Arena& arena, Range range) noexcept;

long unmap(Range range) noexcept;

/// A call that puts something else, or nothing, in the place of `range` if it succeeds.
template <class Call>
long taking(Arena& arena, Range range, Call call) noexcept {
  if (!arena.touches(range)) return call();
  arena.leaving(range);
  const long result = call();
  if (failed(result)) {
    arena.stayed(range);
  } else {
    arena.left(range);
  }
  return result;
}

}  // namespace opal::memory::shareable
