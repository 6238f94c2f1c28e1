// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/rma/target/attached.hpp"

#include <algorithm>
#include <bit>

namespace mpi_shim::rma {

// The write side of a sequence lock.  Release stores keep all changes after the store of the odd version; acquire loads
// in try_read() keep all loads before the second load of the version.  No fences, since ThreadSanitizer does not
// support them.
void AttachedTable::publish(const std::vector<AttachedRegion>& regions) noexcept {
  constexpr auto release = std::memory_order_release;
  version_.fetch_add(1, std::memory_order_acq_rel);
  std::uint32_t count = 0;
  for (const AttachedRegion& region : regions) {
    if (count == kMost) break;
    const auto words = std::bit_cast<Words>(region);
    for (std::size_t word = 0; word < words.size(); ++word) entries_[count][word].store(words[word], release);
    ++count;
  }
  count_.store(count, release);
  version_.fetch_add(1, std::memory_order_release);
}

bool AttachedTable::try_read(std::vector<AttachedRegion>& regions, std::uint32_t& version) const {
  constexpr auto acquire = std::memory_order_acquire;
  const std::uint32_t before = version_.load(acquire);
  if (before % 2 != 0) return false;
  regions.clear();
  const std::size_t count = std::min<std::size_t>(count_.load(acquire), kMost);
  for (std::size_t i = 0; i < count; ++i) {
    Words words;
    for (std::size_t word = 0; word < words.size(); ++word) words[word] = entries_[i][word].load(acquire);
    AttachedRegion& region = regions.emplace_back(std::bit_cast<AttachedRegion>(words));
    region.key_size = std::min<std::uint64_t>(region.key_size, sizeof region.key);
  }
  if (version_.load(std::memory_order_relaxed) != before) return false;
  version = before;
  return true;
}

}  // namespace mpi_shim::rma
