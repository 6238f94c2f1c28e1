// SPDX-License-Identifier: Apache-2.0
// Which table a thread has for which cache: a few quick places without constructor or destructor, which the hit path
// reads, before a list that is gone through once per thread, cache and change of place.
#include "opal/rcache/lease_table.hpp"

#include <algorithm>
#include <new>
#include <vector>

namespace opal::rcache {
namespace {

struct Place {
  std::uint64_t cache_id = 0;  // 0: empty, no cache is called so
  LeaseTable* table = nullptr;
};
constexpr std::size_t kPlaces = 4;  // a power of two

// Initial-exec: this is read on every hit, and the library's share of the static TLS block stays under 100 bytes.
[[gnu::tls_model("initial-exec")]] constinit thread_local std::array<Place, kPlaces> places{};
constinit thread_local bool thread_ends = false;

struct Entry {
  std::uint64_t cache_id;
  std::shared_ptr<LeaseTable> table;
};

/// All tables of a thread.
struct Directory {
  Directory() = default;
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  ~Directory() {
    thread_ends = true;
    places.fill({});
    for (const Entry& entry : entries) entry.table->abandoned.store(true, std::memory_order_release);
  }
  std::vector<Entry> entries;
};
thread_local Directory directory;

[[gnu::noinline, gnu::cold]] LeaseTable* find_in_directory(std::uint64_t cache_id) noexcept {
  if (thread_ends) return nullptr;
  for (const Entry& entry : directory.entries) {
    if (entry.cache_id != cache_id) continue;
    places[cache_id % kPlaces] = {cache_id, entry.table.get()};
    return entry.table.get();
  }
  return nullptr;
}

}  // namespace

LeaseTable* my_lease_table(std::uint64_t cache_id) noexcept {
  const Place& place = places[cache_id % kPlaces];
  return place.cache_id == cache_id ? place.table : find_in_directory(cache_id);
}

bool adopt_lease_table(std::uint64_t cache_id, const std::shared_ptr<LeaseTable>& table) noexcept try {
  if (thread_ends) return false;
  std::erase_if(directory.entries, [](const Entry& entry) { return entry.table->cache_gone.load(); });
  directory.entries.push_back({cache_id, table});
  places[cache_id % kPlaces] = {cache_id, table.get()};
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

}  // namespace opal::rcache
