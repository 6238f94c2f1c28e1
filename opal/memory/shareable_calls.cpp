// SPDX-License-Identifier: Apache-2.0
// What calls that change mappings do where memory is shareable: what they would do if it were private.
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>

#include "opal/memory/raw_syscall.hpp"
#include "opal/memory/shareable.hpp"
#include "opal/memory/shareable_copy.hpp"
#include "opal/memory/shareable_state.hpp"

namespace opal::memory::shareable {
namespace {

#ifndef MREMAP_DONTUNMAP
constexpr long MREMAP_DONTUNMAP = 4;
#endif

Range range_of(long address, long length) noexcept {
  return Range::pages(static_cast<std::uintptr_t>(address), static_cast<std::uintptr_t>(length));
}

long ask(const SystemCall& call) noexcept {
  const auto& a = call.arguments;
  return raw_syscall(call.number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/// As the program asked for it, so that the system's limits and the answers to them are those of private memory; then
/// the shareable one in its stead, if there can be one.
long map_new(Arena& arena, std::size_t size) noexcept {
  const long as_asked =
      raw_syscall(SYS_mmap, 0, static_cast<long>(size), kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (failed(as_asked)) return as_asked;
  const std::uintptr_t shareable = arena.map(size);
  if (shareable == 0) return as_asked;
  unmap(range_of(as_asked, static_cast<long>(size)));
  return static_cast<long>(shareable);
}

long map(Arena& arena, const SystemCall& call) noexcept {
  const auto& a = call.arguments;
  if ((a[3] & MAP_FIXED) != 0) return taking(arena, range_of(a[0], a[1]), [&] { return ask(call); });
  // A hint, a reservation (MAP_NORESERVE), a stack: whoever says more than that has plans of his own with it.
  const bool plain =
      a[0] == 0 && static_cast<int>(a[2]) == kReadWrite && static_cast<int>(a[3]) == (MAP_PRIVATE | MAP_ANONYMOUS);
  const auto size = static_cast<std::size_t>(a[1]);
  if (!plain || size == 0 || size < arena.from() || size > arena.all().size()) return ask(call);
  return map_new(arena, range_of(0, a[1]).size());
}

/// Longer, and the program does not say where: in place if there is room, else, if it may, elsewhere.
long grow(Arena& arena, Range before, std::size_t size, int protection, bool may_move) noexcept {
  if (protection == kReadWrite && arena.extend(before.end, size - before.size())) {
    return static_cast<long>(before.begin);
  }
  if (!may_move) return -ENOMEM;
  const long place = map_new(arena, size);
  if (failed(place)) return place;
  long result = arena.read(before, static_cast<std::uintptr_t>(place));
  if (result == 0 && protection != kReadWrite) {
    result = raw_syscall(SYS_mprotect, place, static_cast<long>(size), protection);
  }
  const Range after = range_of(place, static_cast<long>(size));
  if (result != 0) {
    taking(arena, after, [&] { return unmap(after); });
    return -ENOMEM;
  }
  taking(arena, before, [&] { return unmap(before); });
  return place;
}

/// To a place that the program names, or with the old place kept: a private copy goes there.
long move(Arena& arena, Range before, Range after, int protection, long flags) noexcept {
  const bool fixed = (flags & MREMAP_FIXED) != 0;
  const bool keep = (flags & MREMAP_DONTUNMAP) != 0;
  if (fixed && after.overlaps(before)) return -EINVAL;
  const auto size = static_cast<long>(after.size());
  long place = private_copy(arena, before, after.size(), protection);
  if (failed(place)) return place;
  if (fixed) {
    const long copy = place;
    place = taking(arena, after, [&] {
      return raw_syscall(SYS_mremap, copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, static_cast<long>(after.begin));
    });
    if (failed(place)) {
      unmap(range_of(copy, size));
      return place;
    }
  }
  if (keep) {
    arena.empty(before);
  } else {
    taking(arena, before, [&] { return unmap(before); });
  }
  return place;
}

long remap(Arena& arena, const SystemCall& call) noexcept {
  const auto& a = call.arguments;
  constexpr long kKnown = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
  const Range before = range_of(a[0], a[1]);
  const Range same_place = range_of(a[0], a[2]);
  const bool placed = (a[3] & (MREMAP_FIXED | MREMAP_DONTUNMAP)) != 0;
  const long target = (a[3] & MREMAP_FIXED) != 0 ? a[4] : a[0];
  const bool misaligned = (a[0] | target) % static_cast<long>(kPage) != 0;
  if (!arena.touches(before.empty() ? range_of(a[0], 1) : before)) {
    // Private already; but it may be moved over something shareable.
    const bool over = (a[3] & MREMAP_FIXED) != 0;
    return taking(arena, over ? range_of(target, a[2]) : Range{}, [&] { return ask(call); });
  }
  if (misaligned || before.empty() || same_place.empty() || (a[3] & ~kKnown) != 0) return -EINVAL;
  if (placed && (a[3] & MREMAP_MAYMOVE) == 0) return -EINVAL;
  if ((a[3] & MREMAP_DONTUNMAP) != 0 && before.size() != same_place.size()) return -EINVAL;
  if (!placed && same_place.size() <= before.size()) {
    return taking(arena, {same_place.end, before.end}, [&] { return ask(call); });
  }
  const int protection = protection_of(arena, before);
  if (protection < 0) return -EFAULT;
  if (!placed) return grow(arena, before, same_place.size(), protection, (a[3] & MREMAP_MAYMOVE) != 0);
  return move(arena, before, range_of(target, a[2]), protection, a[3]);
}

long advise(Arena& arena, const SystemCall& call) noexcept {
  const auto& a = call.arguments;
  const Range range = range_of(a[0], a[1]);
  if (!arena.touches(range)) return ask(call);
  if (a[2] == MADV_WIPEONFORK) {
    const long made = make_private(arena, range);
    return made == 0 ? ask(call) : made;
  }
  SystemCall kernels = call;
  // The kernel knows it for private memory only; zeros at once are one of its outcomes.
  if (a[2] == MADV_FREE) kernels.arguments[2] = MADV_DONTNEED;
  const long result = ask(kernels);
  if (result != 0 && result != -ENOMEM) return result;  // ENOMEM: done, but there was a hole
  if (empties(a[2])) arena.empty(range);                // from a file the old contents would come back
  if (a[2] == MADV_DOFORK) {                            // a child gets copies
    for (Range piece = arena.next_piece(range); !piece.empty(); piece = arena.next_piece({piece.end, range.end})) {
      raw_syscall(SYS_madvise, static_cast<long>(piece.begin), static_cast<long>(piece.size()), MADV_DONTFORK);
    }
  }
  return result;
}

}  // namespace

long perform(const SystemCall& call) noexcept {
  Arena& arena = *state();
  const auto& a = call.arguments;
  switch (call.number) {
    case SYS_mmap: return map(arena, call);
    case SYS_munmap: return taking(arena, range_of(a[0], a[1]), [&] { return ask(call); });
    case SYS_mremap: return remap(arena, call);
    case SYS_madvise: return advise(arena, call);
    case SYS_remap_file_pages: return arena.touches(range_of(a[0], a[1])) ? -EINVAL : ask(call);
    case SYS_shmat: {
      const bool replaces = a[1] != 0 && (a[2] & SHM_REMAP) != 0;
      return taking(arena, replaces ? range_of(a[1], static_cast<long>(segment_size(a[0]))) : Range{},
                    [&] { return ask(call); });
    }
    default: return ask(call);
  }
}

}  // namespace opal::memory::shareable
