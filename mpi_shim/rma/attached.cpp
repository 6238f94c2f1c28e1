// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/rma/attached.hpp"

#include <algorithm>
#include <cstring>

namespace mpi_shim::rma {

void AttachedTable::publish(const std::vector<AttachedRegion>& regions) noexcept {
  constexpr auto relaxed = std::memory_order_relaxed;
  version_.fetch_add(1, std::memory_order_acq_rel);
  std::uint32_t count = 0;
  for (const AttachedRegion& region : regions) {
    if (count == kMost) break;
    Entry& entry = entries_[count++];
    std::array<std::uint64_t, kKeyWords> words;
    std::memcpy(words.data(), region.key.data(), sizeof words);
    entry.base.store(region.base, relaxed);
    entry.size.store(region.size, relaxed);
    entry.key_size.store(region.key_size, relaxed);
    for (std::size_t i = 0; i < kKeyWords; ++i) entry.key[i].store(words[i], relaxed);
  }
  count_.store(count, relaxed);
  version_.fetch_add(1, std::memory_order_release);
}

std::uint32_t AttachedTable::read(std::vector<AttachedRegion>& regions) const {
  constexpr auto relaxed = std::memory_order_relaxed;
  for (;;) {
    const std::uint32_t before = version_.load(std::memory_order_acquire);
    if (before % 2 != 0) continue;
    regions.clear();
    const std::size_t count = std::min<std::size_t>(count_.load(relaxed), kMost);
    for (std::size_t i = 0; i < count; ++i) {
      const Entry& entry = entries_[i];
      std::array<std::uint64_t, kKeyWords> words;
      for (std::size_t word = 0; word < kKeyWords; ++word) words[word] = entry.key[word].load(relaxed);
      AttachedRegion& region = regions.emplace_back();
      region.base = entry.base.load(relaxed);
      region.size = entry.size.load(relaxed);
      region.key_size = std::min<std::uint64_t>(entry.key_size.load(relaxed), sizeof words);
      std::memcpy(region.key.data(), words.data(), sizeof words);
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    if (version_.load(relaxed) == before) return before;
  }
}

}  // namespace mpi_shim::rma
