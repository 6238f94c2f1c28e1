// SPDX-License-Identifier: Apache-2.0
// The table of a thread for a cache.  A hit reads an array of four places (lease_table_places), indexed by the cache's
// id.  If another cache has the place, the thread searches the list of all its tables and overwrites the place.
#include "opal/rcache/registrations/lease_table.hpp"

#include <algorithm>
#include <new>
#include <vector>

namespace opal::rcache {

constinit thread_local std::array<LeaseTablePlace, 4> lease_table_places{};

namespace {

constinit thread_local bool thread_ends = false;  // true once the Directory of this thread is destroyed

struct Entry {
  std::uint64_t cache_id;
  std::shared_ptr<LeaseTable> table;
};

/// All tables of a thread.  Its destructor, at the end of the thread, abandons them.
struct Directory {
  Directory() = default;
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  ~Directory() {
    thread_ends = true;
    lease_table_places.fill({});
    for (const Entry& entry : entries) entry.table->abandoned.store(true, std::memory_order_release);
  }
  std::vector<Entry> entries;
};
thread_local Directory directory;

}  // namespace

LeaseTable* my_other_lease_table(std::uint64_t cache_id) noexcept {
  if (thread_ends) return nullptr;
  for (const Entry& entry : directory.entries) {
    if (entry.cache_id != cache_id) continue;
    lease_table_places[cache_id % lease_table_places.size()] = {cache_id, entry.table.get()};
    return entry.table.get();
  }
  return nullptr;
}

bool adopt_lease_table(std::uint64_t cache_id, const std::shared_ptr<LeaseTable>& table) noexcept try {
  if (thread_ends) return false;
  std::erase_if(directory.entries, [](const Entry& entry) { return entry.table->cache_gone.load(); });
  directory.entries.push_back({cache_id, table});
  lease_table_places[cache_id % lease_table_places.size()] = {cache_id, table.get()};
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

}  // namespace opal::rcache
