// SPDX-License-Identifier: Apache-2.0
#include "opal/am/lock.hpp"

#include <algorithm>

#include "opal/core/clock.hpp"

namespace opal::am {

namespace {

constexpr std::uint64_t kLeastGapNs = 200;  // between two looks; before kBurstNs a gap is as long as the wait so far
// For so long a waiting thread leaves the lock to a thread that takes it again and again.
constexpr std::uint64_t kBurstNs = 16'000;
constexpr std::uint64_t kSpinNs = 50'000;  // then a waiting thread sleeps
constexpr std::uint64_t kGiveWayNs = 1'000;

}  // namespace

void Lock::wait() noexcept {
  waiting_.fetch_add(1, std::memory_order_relaxed);
  std::uint32_t seen = passes_.load(std::memory_order_relaxed);
  const std::uint64_t begin = now_ns();
  std::uint64_t next_look = kLeastGapNs;
  bool held = false;
  // Each look takes the lock's cache line from the holder, so looks become rarer until kBurstNs.
  for (std::uint64_t waited = 0; !held && waited < kSpinNs; waited = now_ns() - begin) {
    cpu_relax();
    if (waited < next_look) continue;
    const std::uint32_t passes = passes_.load(std::memory_order_relaxed);
    const bool burst_is_over = passes == seen || waited >= kBurstNs;
    if (burst_is_over) held = mutex_.try_lock();
    seen = passes;
    next_look = waited < kBurstNs ? std::min(2 * waited, kBurstNs) : waited + kLeastGapNs;
  }
  if (!held) mutex_.lock();
  waiting_.fetch_sub(1, std::memory_order_relaxed);
}

void Lock::give_way_to_waiting() const noexcept {
  const std::uint64_t begin = now_ns();
  while (waiting_.load(std::memory_order_relaxed) != 0 && now_ns() - begin < kGiveWayNs) cpu_relax();
}

}  // namespace opal::am
