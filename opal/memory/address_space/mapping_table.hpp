// SPDX-License-Identifier: Apache-2.0
// opal/memory/address_space/mapping_table.hpp — the mappings of one process with their rights, which peers look up: a
// treap of disjoint ranges in shared memory under a sequence lock.  The owner writes; every process that maps the
// shared memory reads.  Adjacent ranges of the same access are one range, so two tables of the same address space are
// equal. docs/design/memory.md ("The tree of mappings") explains the treap, and what a reader may find during a change.
// Cost: a look-up or change is logarithmic in the number of ranges, times the number of ranges that it concerns.
// Threads: one writer at a time (address_space.cpp locks); readers from any thread or process, without a lock.
#pragma once
#include <atomic>
#include <cstdint>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/memory/range.hpp"

namespace opal::memory {

/// Access bits of a range; 0 means that nothing is mapped.
inline constexpr std::uint32_t kMapped = 1;
inline constexpr std::uint32_t kReadable = 2;
inline constexpr std::uint32_t kWritable = 4;
inline constexpr std::uint32_t kExcluded = 8;  // the owner denies its peers access

/// The access bits of a mapping with these PROT_* bits.
constexpr std::uint32_t access_of(int protection) noexcept {
  return kMapped | ((protection & 1) != 0 ? kReadable : 0U) | ((protection & 2) != 0 ? kWritable : 0U);
}

struct MappedRange {
  Range range;
  std::uint32_t access = 0;
  friend bool operator==(const MappedRange&, const MappedRange&) = default;
};

/// Layout v2 of the shared memory.  All bytes zero: an empty table.
struct SharedMappings {
  /// Entries, of which the first is unused: four times the kernel's default limit (vm.max_map_count, 65530).
  static constexpr std::uint32_t kCapacity = 1U << 18;
  /// A node of the tree.  Links are indices of `entries`; 0 means no node.
  struct Entry {
    std::atomic<std::uint64_t> begin;
    std::atomic<std::uint64_t> end_and_access;  // access in the low 12 bits, which are 0 in an address of a page
    std::atomic<std::uint32_t> left;
    std::atomic<std::uint32_t> right;
  };
  std::atomic<std::uint64_t> sequence;  // odd during a change
  std::atomic<std::uint32_t> root;
  std::atomic<std::uint32_t> dropped;  // 1: the table was full and lacks some mapped ranges
  Entry entries[kCapacity];
};
static_assert(sizeof(SharedMappings::Entry) == 24 && std::atomic<std::uint64_t>::is_always_lock_free);

/// Looks up ranges in a table of this process or of a peer.  The SharedMappings outlives it.  Threads: safe from any.
class OPAL_EXPORT MappingView {
 public:
  MappingView() noexcept = default;
  explicit MappingView(const SharedMappings& shared) noexcept : shared_(&shared) {}

  /// Success if every byte of [address, +size) is mapped with all of `wanted` (kReadable, kWritable) and not excluded.
  /// Errors: invalid_argument (not mapped, or excluded), limit_reached (not found, but the table lacks ranges),
  /// permission (other rights), busy (the owner stopped during a change, or the table is corrupt).
  /// Cost: spins for some milliseconds before it returns busy.
  [[nodiscard]] Result<void> check(std::uint64_t address, std::uint64_t size, std::uint32_t wanted) const noexcept;

 private:
  [[nodiscard]] Result<void> check_once(std::uint64_t address, std::uint64_t end, std::uint32_t wanted,
                                        std::uint64_t& steps) const noexcept;
  [[nodiscard]] Error not_found(std::uint64_t address) const noexcept;
  const SharedMappings* shared_ = nullptr;
};

/// The writer of a table.  Threads: externally synchronised.  It allocates nothing but the pages of `shared`.
class OPAL_EXPORT MappingTable {
 public:
  /// Makes `shared` an empty table.  It outlives the MappingTable.  Errors: no_memory.
  static Result<MappingTable> create(SharedMappings& shared) noexcept;

  /// Records that `range` is mapped with `access`; 0: that nothing is mapped there.
  void assign(Range range, std::uint32_t access) noexcept;
  /// Sets the access of the mapped parts of `range` to (access & keep) | add.
  void change(Range range, std::uint32_t keep, std::uint32_t add) noexcept;

  /// Makes the table equal to a list: begin_replacing(), then replace() for each entry in ascending order of address,
  /// then end_replacing().  Excluded ranges that are still mapped stay excluded.  Each range is a change of its own, so
  /// readers see a mixture of the old and the new list meanwhile.
  void begin_replacing() noexcept;
  void replace(MappedRange entry) noexcept;
  void end_replacing() noexcept;

  /// The access that all bytes of `range` have, without kExcluded; 0 if it differs or a part is not mapped.
  [[nodiscard]] std::uint32_t access_throughout(Range range) const noexcept;
  /// True if a byte is excluded.
  [[nodiscard]] bool excludes_some() const noexcept { return excluded_ != 0; }
  /// Records that mremap() has moved `from` to `to`: `to` is mapped with `access`, and is excluded where `from` was.
  /// If `to` is longer, its last part is excluded if the end of `from` was.
  void assign_moved(Range from, Range to, std::uint32_t access) noexcept;

 private:
  using Entry = SharedMappings::Entry;
  using Link = std::atomic<std::uint32_t>;
  class Change;

  explicit MappingTable(SharedMappings& shared) noexcept : shared_(&shared) {}
  [[nodiscard]] Entry& entry(std::uint32_t node) const noexcept { return shared_->entries[node]; }
  [[nodiscard]] MappedRange at(std::uint32_t node) const noexcept;
  [[nodiscard]] std::uint32_t first_ending_after(std::uintptr_t address) const noexcept;
  [[nodiscard]] std::uint32_t last_beginning_before(std::uintptr_t address) const noexcept;
  template <class Visit>
  void for_each_piece(Range range, Visit visit) const;
  void set_from_kernel(Range range, std::uint32_t access) noexcept;
  // These require that a Change exists.
  void clear(Range range) noexcept;
  void add(Range range, std::uint32_t access) noexcept;
  void set(std::uint32_t node, MappedRange value) noexcept;
  void insert(MappedRange value) noexcept;
  void erase(std::uint32_t node) noexcept;
  [[nodiscard]] std::uint32_t take_node() noexcept;

  SharedMappings* shared_;
  std::uint32_t free_ = 0;         // first free node; Entry::left is the next one
  std::uint32_t next_unused_ = 1;  // nodes from this one on were never used
  std::uint32_t backed_ = 0;       // memory is committed for the nodes below this one
  std::uint32_t excluded_ = 0;     // number of nodes with kExcluded
  std::uintptr_t replaced_ = 0;    // end of the last entry that replace() got
};

}  // namespace opal::memory
