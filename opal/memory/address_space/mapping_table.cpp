// SPDX-License-Identifier: Apache-2.0
#include "opal/memory/address_space/mapping_table.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "opal/core/system/raw_syscall.hpp"

namespace opal::memory {
namespace {

constexpr std::uint64_t kAccessBits = 4095;
constexpr auto kRelaxed = std::memory_order_relaxed;
// The entries are loaded with acquire and stored with release instead of fences, which ThreadSanitizer does not
// understand.  So no load of an entry moves after the second load of the sequence number, and no store of an entry
// moves before the store that makes the number odd.
constexpr auto kEntryLoad = std::memory_order_acquire;
constexpr auto kEntryStore = std::memory_order_release;
constexpr std::uint32_t kBackedAtATime = 4096;  // nodes: 96 KiB
constexpr int kPopulateWrite = 23;              // MADV_POPULATE_WRITE, Linux 5.14

/// The priority of a node in the treap: a hash of its index (the finaliser of MurmurHash3).
std::uint32_t priority(std::uint32_t node) noexcept {
  node = (node ^ (node >> 16)) * 0x85ebca6bU;
  node = (node ^ (node >> 13)) * 0xc2b2ae35U;
  return node ^ (node >> 16);
}

Range range_of(const SharedMappings::Entry& entry) noexcept {
  return {entry.begin.load(kEntryLoad), entry.end_and_access.load(kEntryLoad) & ~kAccessBits};
}

}  // namespace

// ---- Readers.  The memory may be a peer's and may change meanwhile: each link is checked, and the steps are bounded.

Error MappingView::not_found(std::uint64_t address) const noexcept {
  if (shared_ != nullptr && shared_->dropped.load(kRelaxed) != 0) {
    return {
        Errc::limit_reached, 0,
        "remote address is not in its owner's table of mappings, which is full (2^18 ranges): map less, or register "
        "the memory itself",
        address};
  }
  return {Errc::invalid_argument, 0, "remote address is not mapped, or excluded from the address-space registration",
          address};
}

Result<void> MappingView::check_once(std::uint64_t address, std::uint64_t end, std::uint32_t wanted,
                                     std::uint64_t& steps) const noexcept {
  const Error torn{Errc::busy, 0, "the peer's table of mappings is being changed all the time"};
  while (address < end) {
    std::uint32_t found = 0;
    for (std::uint32_t node = shared_->root.load(kEntryLoad); node != 0;) {
      if (node >= SharedMappings::kCapacity || steps == 0) return torn;
      --steps;
      const SharedMappings::Entry& entry = shared_->entries[node];
      const bool after = (entry.end_and_access.load(kEntryLoad) & ~kAccessBits) > address;
      if (after) found = node;
      node = (after ? entry.left : entry.right).load(kEntryLoad);
    }
    if (found == 0) return not_found(address);
    const SharedMappings::Entry& entry = shared_->entries[found];
    if (entry.begin.load(kEntryLoad) > address) return not_found(address);
    const std::uint64_t word = entry.end_and_access.load(kEntryLoad);
    const auto access = static_cast<std::uint32_t>(word & kAccessBits);
    if ((access & kExcluded) != 0) return not_found(address);
    if ((wanted & ~access) != 0)
      return Error{Errc::permission, 0, "remote memory is not mapped with these rights", address};
    if ((word & ~kAccessBits) <= address) return torn;
    address = word & ~kAccessBits;
  }
  return {};
}

Result<void> MappingView::check(std::uint64_t address, std::uint64_t size, std::uint32_t wanted) const noexcept {
  if (shared_ == nullptr || size > UINT64_MAX - address) return not_found(address);
  constexpr int kAttempts = 1 << 16;  // take some milliseconds; a change takes microseconds
  std::uint64_t steps = 1U << 24;     // most nodes in all attempts: many times the nodes of the largest table
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const std::uint64_t before = shared_->sequence.load(std::memory_order_acquire);
    if (before % 2 != 0) continue;
    const Result<void> outcome = check_once(address, address + size, wanted, steps);
    if (shared_->sequence.load(kRelaxed) == before) return outcome;
  }
  return Error{Errc::busy, 0, "the peer's table of mappings is being changed all the time"};
}

// ---- The writer

/// While a Change exists the sequence number is odd, and readers try again.  Changes may be nested.
class MappingTable::Change {
 public:
  explicit Change(MappingTable& table) noexcept
      : sequence_(table.shared_->sequence), outermost_(sequence_.load(kRelaxed) % 2 == 0) {
    if (outermost_) sequence_.store(sequence_.load(kRelaxed) + 1, kRelaxed);
  }
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;
  ~Change() {
    if (outermost_) sequence_.store(sequence_.load(kRelaxed) + 1, std::memory_order_release);
  }

 private:
  std::atomic<std::uint64_t>& sequence_;
  const bool outermost_;
};

Result<MappingTable> MappingTable::create(SharedMappings& shared) noexcept {
  MappingTable table{shared};
  const Change change{table};
  shared.root.store(0, kEntryStore);  // another MappingTable may have used this memory
  shared.dropped.store(0, kEntryStore);
  // Commit the memory of the first nodes here, because the functions that fill the table cannot return an error.
  const std::uint32_t first = table.take_node();
  if (first == 0) return Error{Errc::no_memory, 0, "table of mappings", kBackedAtATime * sizeof(Entry)};
  table.entry(first).left.store(0, kEntryStore);
  table.free_ = first;
  return table;
}

MappedRange MappingTable::at(std::uint32_t node) const noexcept {
  return {range_of(entry(node)), static_cast<std::uint32_t>(entry(node).end_and_access.load(kRelaxed) & kAccessBits)};
}

std::uint32_t MappingTable::first_ending_after(std::uintptr_t address) const noexcept {
  std::uint32_t found = 0;
  for (std::uint32_t node = shared_->root.load(kRelaxed); node != 0;) {
    const bool after = range_of(entry(node)).end > address;
    if (after) found = node;
    node = (after ? entry(node).left : entry(node).right).load(kRelaxed);
  }
  return found;
}

std::uint32_t MappingTable::last_beginning_before(std::uintptr_t address) const noexcept {
  std::uint32_t found = 0;
  for (std::uint32_t node = shared_->root.load(kRelaxed); node != 0;) {
    const bool before = range_of(entry(node)).begin < address;
    if (before) found = node;
    node = (before ? entry(node).right : entry(node).left).load(kRelaxed);
  }
  return found;
}

void MappingTable::set(std::uint32_t node, MappedRange value) noexcept {
  const bool was = (entry(node).end_and_access.load(kRelaxed) & kExcluded) != 0;
  const bool is = (value.access & kExcluded) != 0;
  excluded_ += (is ? 1U : 0U) - (was ? 1U : 0U);
  entry(node).begin.store(value.range.begin, kEntryStore);
  entry(node).end_and_access.store(value.range.end | value.access, kEntryStore);
}

/// An unused node; 0 if the table is full or there is no memory.
std::uint32_t MappingTable::take_node() noexcept {
  if (free_ != 0) return std::exchange(free_, entry(free_).left.load(kRelaxed));
  if (next_unused_ >= SharedMappings::kCapacity) return 0;
  if (next_unused_ >= backed_) {
    // Commit the memory: a lack of it is an error here, but a SIGBUS at the first access.  A kernel without this advice
    // (EINVAL) can only do the latter.
    const auto begin = reinterpret_cast<std::uintptr_t>(&entry(next_unused_)) & ~std::uintptr_t{4095};
    const std::uint32_t last = std::min(next_unused_ + kBackedAtATime, SharedMappings::kCapacity);
    const auto end = reinterpret_cast<std::uintptr_t>(shared_->entries + last);
    const long refused =
        raw_syscall(SYS_madvise, static_cast<long>(begin), static_cast<long>(end - begin), kPopulateWrite);
    if (refused != 0 && refused != -EINVAL) return 0;
    backed_ = last;
  }
  return next_unused_++;
}

void MappingTable::insert(MappedRange value) noexcept {
  const std::uint32_t fresh = take_node();
  if (fresh == 0) {  // peers cannot access this range, which is safe; `dropped` is the reason for their error
    shared_->dropped.store(1, kEntryStore);
    return;
  }
  entry(fresh).end_and_access.store(0, kEntryStore);
  set(fresh, value);
  const std::uintptr_t key = value.range.begin;
  const auto begins_before = [&](std::uint32_t node) { return range_of(entry(node)).begin < key; };
  Link* link = &shared_->root;
  std::uint32_t node = link->load(kRelaxed);
  while (node != 0 && priority(node) >= priority(fresh)) {
    link = begins_before(node) ? &entry(node).right : &entry(node).left;
    node = link->load(kRelaxed);
  }
  link->store(fresh, kEntryStore);
  // Split the subtree `node` into the nodes before and after the new one, as its children.
  Link* low = &entry(fresh).left;
  Link* high = &entry(fresh).right;
  while (node != 0) {
    Link*& side = begins_before(node) ? low : high;
    side->store(node, kEntryStore);
    side = &side == &low ? &entry(node).right : &entry(node).left;
    node = side->load(kRelaxed);
  }
  low->store(0, kEntryStore);
  high->store(0, kEntryStore);
}

void MappingTable::erase(std::uint32_t node) noexcept {
  const std::uintptr_t key = range_of(entry(node)).begin;
  Link* link = &shared_->root;
  for (std::uint32_t each = link->load(kRelaxed); each != node; each = link->load(kRelaxed)) {
    link = range_of(entry(each)).begin < key ? &entry(each).right : &entry(each).left;
  }
  std::uint32_t low = entry(node).left.load(kRelaxed);
  std::uint32_t high = entry(node).right.load(kRelaxed);
  while (low != 0 && high != 0) {
    const bool low_above = priority(low) > priority(high);
    std::uint32_t& above = low_above ? low : high;
    link->store(above, kEntryStore);
    link = low_above ? &entry(above).right : &entry(above).left;
    above = link->load(kRelaxed);
  }
  link->store(low != 0 ? low : high, kEntryStore);
  set(node, {});
  entry(node).left.store(std::exchange(free_, node), kEntryStore);
}

/// Removes all of `range` from the table.
void MappingTable::clear(Range range) noexcept {
  for (;;) {
    const std::uint32_t node = first_ending_after(range.begin);
    if (node == 0) return;
    const MappedRange found = at(node);
    if (found.range.begin >= range.end) return;
    const MappedRange left{{found.range.begin, range.begin}, found.access};
    const MappedRange right{{range.end, found.range.end}, found.access};
    if (!left.range.empty()) {
      set(node, left);
      if (!right.range.empty()) insert(right);
    } else if (!right.range.empty()) {
      set(node, right);
    } else {
      erase(node);
    }
  }
}

/// Adds `range`, which is not in the table, merged with adjacent ranges of the same access.
void MappingTable::add(Range range, std::uint32_t access) noexcept {
  const std::uint32_t before = last_beginning_before(range.begin);
  const std::uint32_t after = first_ending_after(range.begin);
  const bool joins_before = before != 0 && at(before).range.end == range.begin && at(before).access == access;
  const bool joins_after = after != 0 && at(after).range.begin == range.end && at(after).access == access;
  if (joins_before) range.begin = at(before).range.begin;
  if (joins_after) {
    range.end = at(after).range.end;
    if (joins_before) erase(after);
  }
  if (joins_before) {
    set(before, {range, access});
  } else if (joins_after) {
    set(after, {range, access});
  } else {
    insert({range, access});
  }
}

void MappingTable::assign(Range range, std::uint32_t access) noexcept {
  if (range.empty()) return;
  if (const std::uint32_t node = first_ending_after(range.begin); node == 0 || at(node).range.begin >= range.end) {
    if (access == 0) return;  // nothing is mapped in `range`
  } else if (at(node).range.contains(range) && at(node).access == access) {
    return;
  }
  const Change change{*this};
  clear(range);
  if (access != 0) add(range, access);
}

/// Calls visit(piece, access) for each part of `range` that has one access; 0: nothing is mapped there.  visit() may
/// change the piece.
template <class Visit>
void MappingTable::for_each_piece(Range range, Visit visit) const {
  while (!range.empty()) {
    const std::uint32_t node = first_ending_after(range.begin);
    const MappedRange found = node != 0 ? at(node) : MappedRange{{range.end, range.end}, 0};
    const bool mapped = found.range.begin <= range.begin;
    const Range piece{range.begin, std::min(range.end, mapped ? found.range.end : found.range.begin)};
    visit(piece, mapped ? found.access : 0U);
    range.begin = piece.end;
  }
}

void MappingTable::change(Range range, std::uint32_t keep, std::uint32_t add) noexcept {
  for_each_piece(range, [&](Range piece, std::uint32_t access) {
    if (access != 0) assign(piece, (access & keep) | add);
  });
}

void MappingTable::begin_replacing() noexcept {
  replaced_ = 0;
  shared_->dropped.store(0, kEntryStore);
}

void MappingTable::replace(MappedRange entry) noexcept {
  set_from_kernel({replaced_, entry.range.begin}, 0);
  set_from_kernel(entry.range, entry.access);
  replaced_ = entry.range.end;
}

void MappingTable::end_replacing() noexcept { set_from_kernel({replaced_, UINTPTR_MAX & ~kAccessBits}, 0); }

/// Sets `range` to `access`, the kernel's.  Parts that were excluded and are still mapped stay excluded.
void MappingTable::set_from_kernel(Range range, std::uint32_t access) noexcept {
  for_each_piece(range, [&](Range piece, std::uint32_t before) {
    assign(piece, access == 0 ? 0 : access | (before & kExcluded));
  });
}

std::uint32_t MappingTable::access_throughout(Range range) const noexcept {
  std::optional<std::uint32_t> common;
  for_each_piece(range, [&](Range /*piece*/, std::uint32_t access) {
    access &= ~kExcluded;
    common = common.value_or(access) == access ? access : 0U;
  });
  return common.value_or(0);
}

void MappingTable::assign_moved(Range from, Range to, std::uint32_t access) noexcept {
  const std::uintptr_t distance = to.begin - from.begin;  // modulo 2^64
  std::uint32_t excluded = 0;
  for_each_piece({from.begin, from.begin + std::min(from.size(), to.size())}, [&](Range piece, std::uint32_t before) {
    excluded = before & kExcluded;
    assign({piece.begin + distance, piece.end + distance}, access | excluded);
  });
  assign({from.end + distance, to.end}, access | excluded);
}

}  // namespace opal::memory
