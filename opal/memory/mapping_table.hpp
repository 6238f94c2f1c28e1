// SPDX-License-Identifier: Apache-2.0
// opal/memory/mapping_table.hpp — what is mapped in one process and what may be done there, for others to look up:
// sorted ranges in shared memory under a sequence lock.  The owner writes, anybody who maps the memory reads.
// Neighbours of the same access are one range, so that two tables of the same address space are equal.
// Threads: one writer at a time (AddressSpace sees to it); readers from any thread or process, without a lock.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "opal/core/export.hpp"
#include "opal/core/mapping.hpp"
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

/// Layout v1 of the shared memory; zero bytes are an empty table.
struct SharedMappings {
  static constexpr std::size_t kCapacity = 65536;  // the kernel's own default limit, vm.max_map_count, is 65530
  struct Entry {
    std::atomic<std::uint64_t> begin;
    std::atomic<std::uint64_t> end_and_access;  // pages: the low bits are free
  };
  std::atomic<std::uint64_t> sequence;  // odd while it is written
  std::atomic<std::uint64_t> count;
  Entry entries[kCapacity];
};
static_assert(sizeof(SharedMappings::Entry) == 16 && std::atomic<std::uint64_t>::is_always_lock_free);

/// Looks up in a table, one's own or a peer's.
class OPAL_EXPORT MappingView {
 public:
  MappingView() noexcept = default;
  explicit MappingView(const SharedMappings& shared) noexcept : shared_(&shared) {}

  /// True when every byte of [address, +size) is mapped with all of `wanted` (kReadable, kWritable) and not excluded.
  /// Errors: invalid_argument (not mapped, or excluded), permission, busy (the owner stopped in the middle of a
  /// change).
  [[nodiscard]] Result<void> check(std::uint64_t address, std::uint64_t size, std::uint32_t wanted) const noexcept;

 private:
  [[nodiscard]] Result<void> look(std::uint64_t address, std::uint64_t end, std::uint32_t wanted) const noexcept;
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

  /// Replaces everything: clear_all(), then append() in order of address, then publish_all().  Excluded ranges that are
  /// still mapped stay excluded.
  void clear_all() noexcept;
  void append(MappedRange entry) noexcept;
  void publish_all() noexcept;

  /// Access of all of `range`; 0 if a part is not mapped, or with other access.
  [[nodiscard]] std::uint32_t access_throughout(Range range) const noexcept;
  [[nodiscard]] std::span<const MappedRange> ranges() const noexcept { return {master(), count_}; }

 private:
  MappingTable(SharedMappings& shared, Mapping master, Mapping spare) noexcept
      : shared_(&shared), master_(std::move(master)), spare_(std::move(spare)) {}
  [[nodiscard]] MappedRange* master() const noexcept { return reinterpret_cast<MappedRange*>(master_.data()); }
  [[nodiscard]] std::size_t first_ending_after(std::uintptr_t address) const noexcept;
  void publish(std::size_t from, std::size_t to) noexcept;

  SharedMappings* shared_;
  Mapping master_;  // what is published, in memory of our own
  Mapping spare_;   // the one before, while everything is replaced
  std::size_t count_ = 0;
  std::size_t spare_count_ = 0;
  bool quiet_ = false;  // between clear_all() and publish_all()
};

}  // namespace opal::memory
