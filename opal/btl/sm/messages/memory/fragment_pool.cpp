// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/sm/messages/memory/fragment_pool.hpp"

#include <algorithm>

namespace opal::btl::sm {
namespace {

// Sequence numbers have 16 bits, and the receiver compares them for equality.  So fragments (twice this number) and
// records in flight in one direction stay below 2^16.
constexpr std::uint32_t kMostFragments = 8192;
// Limit of the bytes allocated at a time: enough to amortise the system call.
constexpr std::size_t kGrowth = std::size_t{32} << 10;

}  // namespace

FragmentPool::FragmentPool(mpool::SharedPool& memory, const std::atomic<std::uint32_t>* released, const Sizes& sizes,
                           std::size_t budget)
    : memory_(&memory), base_(memory.bytes().data()) {
  const std::size_t shares[] = {budget / 4, budget - budget / 4};
  for (std::size_t i = 0; i < classes_.size(); ++i) {
    Class& pool = classes_[i];
    pool.payload = sizes[i];
    pool.stride = static_cast<std::uint32_t>(align_up(sizeof(wire::FragmentHeader) + sizes[i], kCacheLine));
    pool.most = static_cast<std::uint32_t>(std::min<std::size_t>(shares[i] / pool.stride, kMostFragments));
    if (i == 0) pool.for_answers = std::min(kForAnswers, pool.most / 3);
    pool.released = &released[i];
    pool.reclaimed = released[i].load(std::memory_order_relaxed);
    pool.free.reserve(pool.most);
    pool.in_flight.resize(pool.most);
  }
}

bool FragmentPool::refill(Class& pool, std::uint32_t keep, std::uint32_t window) noexcept {
  for (Class& each : classes_) reclaim(each);
  if (broken_) return false;
  if (pool.free.empty()) grow(pool);
  return pool.has_more_than(keep) && taken_ < window;
}

void FragmentPool::reclaim(Class& pool) noexcept {
  const std::uint32_t back = pool.released->load(std::memory_order_acquire) - pool.reclaimed;
  if (back > pool.flying) {
    broken_ = true;
    return;
  }
  for (std::uint32_t i = 0; i < back; ++i) {
    pool.free.push_back(pool.in_flight[pool.first]);
    pool.first = pool.first + 1 == pool.most ? 0 : pool.first + 1;
  }
  pool.flying -= back;
  pool.reclaimed += back;
  taken_ -= back;
}

/// Doubles the fragments of a class, up to kGrowth bytes at a time.  So the second message of a peer that gets few has
/// the fragment of the first, and touches no new page.
void FragmentPool::grow(Class& pool) noexcept {
  const std::size_t most = std::max<std::size_t>(1, kGrowth / pool.stride);
  auto count = static_cast<std::uint32_t>(std::clamp<std::size_t>(pool.made, 1, most));
  count = std::min(count, pool.most - pool.made);
  for (; count != 0; count /= 2) {
    const auto block = memory_->allocate(std::size_t{count} * pool.stride);
    if (!block) continue;  // fewer may fit; without memory the fragments made so far must do
    for (std::uint32_t i = 0; i < count; ++i) {
      pool.free.push_back(static_cast<std::uint32_t>((block->offset + std::size_t{i} * pool.stride) / kCacheLine));
    }
    pool.made += count;
    return;
  }
}

}  // namespace opal::btl::sm
