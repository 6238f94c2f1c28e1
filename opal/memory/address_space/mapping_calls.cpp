// SPDX-License-Identifier: Apache-2.0
#include "opal/memory/address_space/mapping_calls.hpp"

#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <algorithm>
#include <iterator>

#include "opal/core/system/raw_syscall.hpp"
#include "opal/memory/address_space/address_space.hpp"
#include "opal/memory/events/events.hpp"
#include "opal/memory/process_maps.hpp"

namespace opal::memory {
namespace {

#ifndef MADV_DONTNEED_LOCKED
constexpr int MADV_DONTNEED_LOCKED = 24;
#endif
constexpr int kGuardInstall = 102;  // MADV_GUARD_INSTALL, Linux 6.13

#ifdef SYS_process_madvise
constexpr long kProcessMadvise = SYS_process_madvise;
#else
constexpr long kProcessMadvise = 440;  // the same number on all architectures
#endif

constexpr long kWatched[] = {SYS_mmap,       SYS_munmap, SYS_mremap,   SYS_madvise,       SYS_brk,
                             SYS_shmat,      SYS_shmdt,  SYS_mprotect, SYS_pkey_mprotect, SYS_remap_file_pages,
                             kProcessMadvise};

/// True for advice that discards the content of the pages.
bool empties(long advice) noexcept {
  return advice == MADV_DONTNEED || advice == MADV_FREE || advice == MADV_REMOVE || advice == MADV_DONTNEED_LOCKED ||
         advice == kGuardInstall;
}

/// Bytes of a System V segment; 0 when there is no such segment.
std::size_t segment_size(long id) noexcept {
  shmid_ds status{};
  return raw_syscall(SYS_shmctl, id, IPC_STAT, reinterpret_cast<long>(&status)) < 0 ? 0 : status.shm_segsz;
}

/// The smallest range that contains both.
Range hull(Range a, Range b) noexcept {
  if (a.empty() || b.empty()) return a.empty() ? b : a;
  return {std::min(a.begin, b.begin), std::max(a.end, b.end)};
}

/// The range of the System V segment that is attached at `address`; shmdt() has no argument for the length.
Range attached_at(long address) noexcept {
  const auto wanted = static_cast<std::uintptr_t>(address);
  Range found;
  ProcessMaps maps;
  for (MapsEntry entry; maps.next(entry);) {
    const bool goes_on = !found.empty() && entry.range.begin == found.end;
    if (entry.range.begin == wanted || goes_on) {
      // A segment whose parts have different rights is several entries with ascending offsets.
      if (goes_on && entry.offset != entry.range.begin - wanted) break;
      if (found.empty()) found.begin = wanted;
      found.end = entry.range.end;
    } else if (!found.empty()) {
      break;
    }
  }
  return found;
}

/// The memory that a call is about to release.  Only mremap() uses `second`: the range that it replaces.
struct Released {
  Range first;
  Range second;
};

Released released_by(const SystemCall& call) noexcept {
  const auto& a = call.arguments;
  switch (call.number) {
    case SYS_munmap: return {range_of(a[0], a[1]), {}};
    case SYS_madvise: return {empties(a[2]) ? range_of(a[0], a[1]) : Range{}, {}};
    case SYS_mmap: return {(a[3] & MAP_FIXED) != 0 ? range_of(a[0], a[1]) : Range{}, {}};
    case SYS_mremap: {
      const long address = a[0], old_length = a[1], new_length = a[2], flags = a[3];
      // With old length 0 it maps a shared mapping a second time and releases nothing.  With MREMAP_MAYMOVE the old
      // range counts as released, also if the kernel does not move it.
      Range gone;
      if ((flags & MREMAP_MAYMOVE) != 0) {
        gone = range_of(address, old_length);
      } else if (static_cast<unsigned long>(new_length) < static_cast<unsigned long>(old_length)) {
        gone = {range_of(address, new_length).end, range_of(address, old_length).end};
      }
      return {gone, (flags & MREMAP_FIXED) != 0 ? range_of(a[4], new_length) : Range{}};
    }
    case SYS_brk: {
      if (a[0] == 0) return {};
      const auto now = static_cast<std::uintptr_t>(raw_syscall(SYS_brk, 0));
      const auto wanted = static_cast<std::uintptr_t>(a[0]);
      // The page that contains the new break stays.
      return {wanted < now ? Range{Range::pages(0, wanted).end, Range::pages(0, now).end} : Range{}, {}};
    }
    case SYS_shmdt: return {attached_at(a[0]), {}};
    case SYS_shmat:
      if (a[1] == 0 || (a[2] & SHM_REMAP) == 0) return {};
      return {Range::pages(static_cast<std::uintptr_t>(a[1]), segment_size(a[0])), {}};
    case SYS_remap_file_pages: return {range_of(a[0], a[1]), {}};
    default: return {};
  }
}

/// Calls visit(range) for each range of which process_madvise() discards the content.  The kernel allows such advice
/// only for the caller's own process.
template <class Visit>
void each_emptied(const SystemCall& call, Visit visit) noexcept {
  constexpr long kMostPieces = 1024;  // UIO_MAXIOV: beyond it the kernel refuses
  const auto& a = call.arguments;
  if (call.number != kProcessMadvise || !empties(a[3]) || a[1] == 0 || a[2] > kMostPieces) return;
  const auto* const pieces = reinterpret_cast<const iovec*>(a[1]);  // NOLINT(performance-no-int-to-ptr)
  for (long i = 0; i < a[2]; ++i) {
    visit(range_of(reinterpret_cast<long>(pieces[i].iov_base), static_cast<long>(pieces[i].iov_len)));
  }
}

/// The memory that mmap() or mremap(), which returned `result`, has mapped; empty for other calls.
Range mapped_by(const SystemCall& call, long result) noexcept {
  const auto& a = call.arguments;
  if (result < 0 && result > -4096) return {};
  if (call.number == SYS_mmap) return range_of(result, a[1]);
  if (call.number != SYS_mremap) return {};
  const Range now = range_of(result, a[2]);
  return result == a[0] ? Range{range_of(a[0], a[1]).end, now.end} : now;
}

}  // namespace

bool is_watched(long number) noexcept {
  return std::find(std::begin(kWatched), std::end(kWatched), number) != std::end(kWatched);
}

long call_kernel(const SystemCall& call) noexcept {
  const auto& a = call.arguments;
  return raw_syscall(call.number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

long perform(const SystemCall& call) noexcept {
  const Released gone = released_by(call);
  Range all = hull(gone.first, gone.second);
  each_emptied(call, [&](Range range) { all = hull(all, range); });
  long result = 0;
  {
    const Releasing under_way{all};
    released(gone.first);
    released(gone.second);
    each_emptied(call, [](Range range) { released(range); });
    result = address_space::followed() ? address_space::perform_followed(call) : call_kernel(call);
  }
  mapped(mapped_by(call, result));
  return result;
}

}  // namespace opal::memory
