// SPDX-License-Identifier: Apache-2.0
// opal/memory/address_space/mapping_table.hpp — what is mapped in one process and what may be done there, for others to
// look up: a balanced tree of disjoint ranges in shared memory under a sequence lock.  The owner writes, any process
// that maps the memory reads.  Neighbours of the same access are one range, so that two tables of the same address
// space are equal. docs/design/memory.md ("The tree of mappings") says why a treap, and what a reader may meet in it.
// Cost: a look-up and a change are logarithmic in the number of ranges, for each range that they concern.
// Threads: one writer at a time (AddressSpace sees to it); readers from any thread or process, without a lock.
#pragma once
#include <atomic>
#include <cstdint>
#include <vector>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/memory/range.hpp"

namespace opal::memory {

/// Bits of what may be done with a page; 0 means that nothing is mapped.
inline constexpr std::uint32_t kMapped = 1;
inline constexpr std::uint32_t kReadable = 2;
inline constexpr std::uint32_t kWritable = 4;
inline constexpr std::uint32_t kExcluded = 8;

/// kMapped and what PROT_* says.
constexpr std::uint32_t access_of(int protection) noexcept {
  return kMapped | ((protection & 1) != 0 ? kReadable : 0U) | ((protection & 2) != 0 ? kWritable : 0U);
}

struct MappedRange {
  Range range;
  std::uint32_t access = 0;
  friend bool operator==(const MappedRange&, const MappedRange&) = default;
};

/// Layout v2 of the shared memory; zero bytes are an empty table.
struct SharedMappings {
  /// Ranges, less one: four times the kernel's own default limit (vm.max_map_count, 65530).
  static constexpr std::uint32_t kCapacity = 1U << 18;
  /// A node of the tree; links are indices, 0 is none.
  struct Entry {
    std::atomic<std::uint64_t> begin;
    std::atomic<std::uint64_t> end_and_access;  // pages: the low bits are free
    std::atomic<std::uint32_t> left;
    std::atomic<std::uint32_t> right;
  };
  std::atomic<std::uint64_t> sequence;  // odd while it is written
  std::atomic<std::uint32_t> root;
  std::atomic<std::uint32_t> dropped;  // ranges were left out for lack of room: what is not found may be mapped
  Entry entries[kCapacity];            // the first is never used
};
static_assert(sizeof(SharedMappings::Entry) == 24 && std::atomic<std::uint64_t>::is_always_lock_free);

/// Looks up in a table, one's own or a peer's.
class OPAL_EXPORT MappingView {
 public:
  MappingView() noexcept = default;
  explicit MappingView(const SharedMappings& shared) noexcept : shared_(&shared) {}

  /// True when every byte of [address, +size) is mapped with all of `wanted` (kReadable, kWritable) and not excluded.
  /// Errors: invalid_argument (not mapped, or excluded), limit_reached (not found, and the table is full), permission,
  /// busy (the owner stopped in the middle of a change, or the table makes no sense).
  [[nodiscard]] Result<void> check(std::uint64_t address, std::uint64_t size, std::uint32_t wanted) const noexcept;

 private:
  [[nodiscard]] Result<void> look(std::uint64_t address, std::uint64_t end, std::uint32_t wanted,
                                  std::uint64_t& steps) const noexcept;
  [[nodiscard]] Error not_found(std::uint64_t address) const noexcept;
  const SharedMappings* shared_ = nullptr;
};

class OPAL_EXPORT MappingTable {
 public:
  /// Writes into `shared`, which outlives it.  Errors: no_memory.
  static Result<MappingTable> create(SharedMappings& shared) noexcept;

  /// From now on `range` is mapped with `access`; 0: nothing is.
  void assign(Range range, std::uint32_t access) noexcept;
  /// Of what is mapped in `range`, access becomes (access & keep) | add.
  void change(Range range, std::uint32_t keep, std::uint32_t add) noexcept;

  /// Makes it equal to another list: begin_replacing(), then replace() in order of address, then end_replacing().
  /// Excluded ranges that are still mapped stay excluded.  Readers wait for single changes only.
  void begin_replacing() noexcept;
  void replace(MappedRange entry) noexcept;
  void end_replacing() noexcept;

  /// Access of all of `range` but for kExcluded; 0 if a part is not mapped, or with other access.
  [[nodiscard]] std::uint32_t access_throughout(Range range) const noexcept;
  /// True when some of `range` is excluded.
  [[nodiscard]] bool excludes_some(Range range) const noexcept;
  /// What was mapped in `from` is mapped at `to` with `access` now, what was excluded still excluded; what is longer
  /// than before is excluded if the end was.
  void carry(Range from, Range to, std::uint32_t access) noexcept;

  /// A copy, in order of address; not for use inside a mapping call.
  [[nodiscard]] std::vector<MappedRange> ranges() const;

 private:
  using Entry = SharedMappings::Entry;
  using Link = std::atomic<std::uint32_t>;
  class Change;

  explicit MappingTable(SharedMappings& shared) noexcept : shared_(&shared) {}
  [[nodiscard]] Entry& entry(std::uint32_t node) const noexcept { return shared_->entries[node]; }
  [[nodiscard]] MappedRange at(std::uint32_t node) const noexcept;
  [[nodiscard]] std::uint32_t first_ending_after(std::uintptr_t address) const noexcept;
  [[nodiscard]] std::uint32_t last_beginning_before(std::uintptr_t address) const noexcept;
  void settle(Range range, std::uint32_t access) noexcept;
  // Within a Change.
  void clear(Range range) noexcept;
  void add(Range range, std::uint32_t access) noexcept;
  void set(std::uint32_t node, MappedRange value) noexcept;
  void insert(MappedRange value) noexcept;
  void erase(std::uint32_t node) noexcept;
  [[nodiscard]] std::uint32_t take_node() noexcept;

  SharedMappings* shared_;
  std::uint32_t free_ = 0;         // a list through Entry::left
  std::uint32_t next_unused_ = 1;  // never used from here on
  std::uint32_t backed_ = 0;       // nodes whose memory is there
  std::uint32_t excluded_ = 0;     // nodes with kExcluded
  std::uintptr_t replaced_ = 0;    // up to here, between begin_replacing() and end_replacing()
};

}  // namespace opal::memory
