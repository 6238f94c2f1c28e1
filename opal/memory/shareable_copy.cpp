// SPDX-License-Identifier: Apache-2.0
#include "opal/memory/shareable_copy.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>

#include "opal/memory/events.hpp"
#include "opal/memory/raw_syscall.hpp"

namespace opal::memory::shareable {

bool ArenaMaps::next(MapsEntry& entry) noexcept {
  while (maps_.next(entry)) {
    // Inodes are compared only among the arena's addresses, where nobody else maps memory files by chance.
    if (arena_.all().contains(entry.range) && entry.inode == arena_.inode()) return true;
  }
  return false;
}

int protection_of(const Arena& arena, Range range) noexcept {
  ArenaMaps maps{arena};
  for (MapsEntry entry; maps.next(entry);) {
    if (entry.range.contains(range)) return entry.protection;
  }
  return -1;
}

long unmap(Range range) noexcept {
  return raw_syscall(SYS_munmap, static_cast<long>(range.begin), static_cast<long>(range.size()));
}

long private_copy(const Arena& arena, Range range, std::size_t size, int protection) noexcept {
  const auto length = static_cast<long>(size);
  const long copy = raw_syscall(SYS_mmap, 0, length, kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (failed(copy)) return copy;
  range.end = std::min(range.end, range.begin + size);
  long result = arena.read(range, static_cast<std::uintptr_t>(copy));
  if (result == 0 && protection != kReadWrite) result = raw_syscall(SYS_mprotect, copy, length, protection);
  if (result == 0) return copy;
  raw_syscall(SYS_munmap, copy, length);
  return -ENOMEM;
}

long make_private(Arena& arena, Range range) noexcept {
  ArenaMaps maps{arena};
  for (MapsEntry entry; maps.next(entry);) {
    const Range piece{std::max(entry.range.begin, range.begin), std::min(entry.range.end, range.end)};
    if (piece.empty()) continue;
    const long copy = private_copy(arena, piece, piece.size(), entry.protection);
    if (failed(copy)) return copy;
    released(piece);  // what peers map is not what is there any more
    const auto size = static_cast<long>(piece.size());
    const long placed = taking(arena, piece, [&] {
      return raw_syscall(SYS_mremap, copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, static_cast<long>(piece.begin));
    });
    if (failed(placed)) {
      raw_syscall(SYS_munmap, copy, size);
      return -ENOMEM;
    }
  }
  return maps.failed() ? -ENOMEM : 0;
}

}  // namespace opal::memory::shareable
