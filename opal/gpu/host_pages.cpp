// SPDX-License-Identifier: Apache-2.0
#include "opal/gpu/host_pages.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "opal/memory/events/monitor.hpp"

namespace opal::gpu {
namespace {

/// True if the processor can read there: tests it by a system call that reads 8 bytes, rejects them and has no effect.
bool is_readable(std::uintptr_t page_begin) noexcept {
  constexpr int kNoSuchChange = -1;
  constexpr std::size_t kKernelSetSize = 8;
  const int before = errno;
  const long result = ::syscall(SYS_rt_sigprocmask, kNoSuchChange, page_begin, nullptr, kKernelSetSize);
  const bool readable = result != 0 && errno == EINVAL;
  errno = before;
  return readable;
}

}  // namespace

HostPages host_pages;

void HostPages::start() noexcept {
  if (!memory::monitored() || listening_.load(std::memory_order_relaxed) || !memory::add_listener(*this)) return;
  listening_.store(true, std::memory_order_relaxed);
}

// add() stores, then reads releases_; released() increments releases_, then clears.  In any order of the two, no page
// of released memory stays in the cache.
void HostPages::add(const void* address, std::uint64_t releases_before) noexcept {
  if (!listening_.load(std::memory_order_relaxed)) return;
  std::uintptr_t page = page_of(address);
  // The driver knows nothing of addresses at which there is nothing either, and a device's memory may come there
  // without any event: what lies after the end of a buffer, or was freed.  Those cannot be read.
  if (!is_readable(page << kPageBits)) return;
  std::atomic<std::uintptr_t>& slot = slots_[slot_of(page)];
  slot.store(page, std::memory_order_seq_cst);
  if (releases() != releases_before) slot.compare_exchange_strong(page, 0);
}

void HostPages::released(memory::Range range) noexcept {
  releases_.fetch_add(1, std::memory_order_seq_cst);
  const std::uintptr_t first = range.begin >> kPageBits;
  const std::uintptr_t last = (range.end - 1) >> kPageBits;
  if (last - first >= kSlots) {
    for (std::atomic<std::uintptr_t>& slot : slots_) {
      std::uintptr_t page = slot.load(std::memory_order_seq_cst);
      if (page >= first && page <= last) slot.compare_exchange_strong(page, 0, std::memory_order_seq_cst);
    }
    return;
  }
  for (std::uintptr_t page = first; page <= last; ++page) {
    std::uintptr_t expected = page;
    slots_[slot_of(page)].compare_exchange_strong(expected, 0, std::memory_order_seq_cst);
  }
}

}  // namespace opal::gpu
