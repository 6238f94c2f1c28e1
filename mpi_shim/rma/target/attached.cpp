// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/rma/target/attached.hpp"

#include <algorithm>
#include <cstring>

namespace mpi_shim::rma {
namespace {

std::size_t words_of(std::uint64_t bytes) noexcept { return (bytes + 7) / sizeof(std::uint64_t); }

}  // namespace

// The write side of a sequence lock.  Release stores keep all changes after the store of the odd version; acquire loads
// in try_read() keep all loads before the second load of the version.  No fences, since ThreadSanitizer does not
// support them.
void AttachedTable::publish(const std::vector<AttachedRegion>& regions) noexcept {
  constexpr auto release = std::memory_order_release;
  version_.fetch_add(1, std::memory_order_acq_rel);
  std::uint32_t count = 0;
  for (const AttachedRegion& region : regions) {
    if (count == kMost) break;
    Entry& entry = entries_[count++];
    std::array<std::uint64_t, kKeyWords> words;
    std::memcpy(words.data(), region.key.data(), sizeof words);
    entry.base.store(region.base, release);
    entry.size.store(region.size, release);
    entry.key_size.store(region.key_size, release);
    for (std::size_t word = 0; word < words_of(region.key_size); ++word) {
      entry.key[word].store(words[word], release);
    }
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
    const Entry& entry = entries_[i];
    AttachedRegion& region = regions.emplace_back();
    region.base = entry.base.load(acquire);
    region.size = entry.size.load(acquire);
    region.key_size = std::min<std::uint64_t>(entry.key_size.load(acquire), sizeof region.key);
    std::array<std::uint64_t, kKeyWords> words{};
    for (std::size_t word = 0; word < words_of(region.key_size); ++word) {
      words[word] = entry.key[word].load(acquire);
    }
    std::memcpy(region.key.data(), words.data(), sizeof words);
  }
  if (version_.load(std::memory_order_relaxed) != before) return false;
  version = before;
  return true;
}

}  // namespace mpi_shim::rma
