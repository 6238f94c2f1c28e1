// SPDX-License-Identifier: Apache-2.0
#include "opal/memory/mapping_calls.hpp"

#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>

#include <algorithm>
#include <iterator>

#include "opal/memory/address_space.hpp"
#include "opal/memory/events.hpp"
#include "opal/memory/process_maps.hpp"
#include "opal/memory/raw_syscall.hpp"
#include "opal/memory/shareable.hpp"

namespace opal::memory {
namespace {

#ifndef MADV_DONTNEED_LOCKED
constexpr int MADV_DONTNEED_LOCKED = 24;
#endif
constexpr int kGuardInstall = 102;  // MADV_GUARD_INSTALL, Linux 6.13

#ifdef SYS_fork
constexpr long kFork = SYS_fork;
#else
constexpr long kFork = SYS_clone;  // there is no other
#endif

constexpr long kWatched[] = {SYS_mmap,  SYS_munmap,   SYS_mremap,        SYS_madvise,          SYS_brk,   SYS_shmat,
                             SYS_shmdt, SYS_mprotect, SYS_pkey_mprotect, SYS_remap_file_pages, SYS_clone, kFork};

Range range_of(long address, long length) noexcept {
  return Range::pages(static_cast<std::uintptr_t>(address), static_cast<std::uintptr_t>(length));
}

/// The end of the heap as the kernel has it.
long current_break() noexcept { return raw_syscall(SYS_brk, 0); }

/// The segment attached at `address`: shmdt() is not told how long it is, nor is shmat() where it replaces something.
Range attached_at(long address) noexcept {
  const auto wanted = static_cast<std::uintptr_t>(address);
  Range found;
  ProcessMaps maps;
  for (MapsEntry entry; maps.next(entry);) {
    const bool goes_on = !found.empty() && entry.range.begin == found.end;
    if (entry.range.begin == wanted || goes_on) {
      // A segment whose pieces bear different rights is several entries with growing offsets.
      if (goes_on && entry.offset != entry.range.begin - wanted) break;
      if (found.empty()) found.begin = wanted;
      found.end = entry.range.end;
    } else if (!found.empty()) {
      break;
    }
  }
  return found;
}

/// Says what the call is about to release.
void report(const SystemCall& call) noexcept {
  const auto& a = call.arguments;
  switch (call.number) {
    case SYS_munmap: released(range_of(a[0], a[1])); break;
    case SYS_madvise:
      if (empties(a[2])) released(range_of(a[0], a[1]));
      break;
    case SYS_mmap:
      if ((a[3] & MAP_FIXED) != 0) released(range_of(a[0], a[1]));
      break;
    case SYS_mremap: {
      const long address = a[0], old_length = a[1], new_length = a[2], flags = a[3];
      // With length 0 a shared mapping is seen twice and the old place stays.  If it may move it counts as moved.
      if ((flags & MREMAP_MAYMOVE) != 0) {
        released(range_of(address, old_length));
      } else if (static_cast<unsigned long>(new_length) < static_cast<unsigned long>(old_length)) {
        Range tail = range_of(address, old_length);
        tail.begin = range_of(address, new_length).end;
        released(tail);
      }
      if ((flags & MREMAP_FIXED) != 0) released(range_of(a[4], new_length));
      break;
    }
    case SYS_brk: {
      if (a[0] == 0) break;
      const auto now = static_cast<std::uintptr_t>(current_break());
      const auto wanted = static_cast<std::uintptr_t>(a[0]);
      // The page that holds the new end stays.
      if (wanted < now) released({Range::pages(0, wanted).end, Range::pages(0, now).end});
      break;
    }
    case SYS_shmdt: released(attached_at(a[0])); break;
    case SYS_shmat:
      if (a[1] != 0 && (a[2] & SHM_REMAP) != 0) {
        released(Range::pages(static_cast<std::uintptr_t>(a[1]), segment_size(a[0])));
      }
      break;
    case SYS_remap_file_pages: released(range_of(a[0], a[1])); break;
    default: break;
  }
}

}  // namespace

bool empties(long advice) noexcept {
  return advice == MADV_DONTNEED || advice == MADV_FREE || advice == MADV_REMOVE || advice == MADV_DONTNEED_LOCKED ||
         advice == kGuardInstall;
}

std::size_t segment_size(long id) noexcept {
  shmid_ds status{};
  return raw_syscall(SYS_shmctl, id, IPC_STAT, reinterpret_cast<long>(&status)) < 0 ? 0 : status.shm_segsz;
}

bool is_fork(long number) noexcept { return number == SYS_clone || number == kFork; }

bool is_watched(long number) noexcept {
  return std::find(std::begin(kWatched), std::end(kWatched), number) != std::end(kWatched);
}

long carry_out(const SystemCall& call) noexcept {
  if (shareable::active()) return shareable::perform(call);
  const auto& a = call.arguments;
  return raw_syscall(call.number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

long perform(const SystemCall& call) noexcept {
  if (is_fork(call.number)) {
    const auto& a = call.arguments;
    return shareable::active() ? shareable::fork(call) : raw_syscall(call.number, a[0], a[1], a[2], a[3], a[4], a[5]);
  }
  report(call);
  return address_space::followed() ? address_space::perform_followed(call) : carry_out(call);
}

}  // namespace opal::memory
