// SPDX-License-Identifier: Apache-2.0
#include "opal/memory/mapping_table.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace opal::memory {
namespace {

constexpr std::uint64_t kAccessBits = 4095;
constexpr auto kRelaxed = std::memory_order_relaxed;
// What the sequence number guards is ordered by its own loads and stores, not by fences, which ThreadSanitizer does not
// understand: no load of it moves behind the second look at the number, no store of it before the first change of that.
constexpr auto kEntryLoad = std::memory_order_acquire;
constexpr auto kEntryStore = std::memory_order_release;
constexpr std::size_t kMasterBytes = SharedMappings::kCapacity * sizeof(MappedRange);

Error not_mapped(std::uint64_t address) noexcept {
  return {Errc::invalid_argument, 0, "remote address is not mapped, or excluded from the address-space registration",
          address};
}

}  // namespace

Result<void> MappingView::look(std::uint64_t address, std::uint64_t end, std::uint32_t wanted) const noexcept {
  const std::size_t count = std::min<std::uint64_t>(shared_->count.load(kEntryLoad), SharedMappings::kCapacity);
  const SharedMappings::Entry* const entries = shared_->entries;
  const auto end_of = [](const SharedMappings::Entry& entry) {
    return entry.end_and_access.load(kEntryLoad) & ~kAccessBits;
  };
  std::size_t i = 0;
  for (std::size_t length = count; length > 0;) {
    const std::size_t half = length / 2;
    if (end_of(entries[i + half]) <= address) {
      i += half + 1;
      length -= half + 1;
    } else {
      length = half;
    }
  }
  for (; address < end; ++i) {
    if (i >= count || entries[i].begin.load(kEntryLoad) > address) return not_mapped(address);
    const auto access = static_cast<std::uint32_t>(entries[i].end_and_access.load(kEntryLoad) & kAccessBits);
    if ((access & kExcluded) != 0) return not_mapped(address);
    if ((wanted & ~access) != 0)
      return Error{Errc::permission, 0, "remote memory is not mapped with these rights", address};
    address = std::max(address + 1, end_of(entries[i]));
  }
  return {};
}

Result<void> MappingView::check(std::uint64_t address, std::uint64_t size, std::uint32_t wanted) const noexcept {
  if (shared_ == nullptr || size > UINT64_MAX - address) return not_mapped(address);
  constexpr int kAttempts = 1 << 16;  // some milliseconds; a change takes microseconds
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const std::uint64_t before = shared_->sequence.load(std::memory_order_acquire);
    if (before % 2 != 0) continue;
    const Result<void> outcome = look(address, address + size, wanted);
    if (shared_->sequence.load(kRelaxed) == before) return outcome;
  }
  return Error{Errc::busy, 0, "the peer's table of mappings is being changed all the time"};
}

Result<MappingTable> MappingTable::create(SharedMappings& shared) noexcept {
  OPAL_TRY_ASSIGN(Mapping master, Mapping::anonymous(kMasterBytes, false));
  OPAL_TRY_ASSIGN(Mapping spare, Mapping::anonymous(kMasterBytes, false));
  return MappingTable{shared, std::move(master), std::move(spare)};
}

std::size_t MappingTable::first_ending_after(std::uintptr_t address) const noexcept {
  const auto all = ranges();
  return static_cast<std::size_t>(
      std::partition_point(all.begin(), all.end(), [&](const MappedRange& r) { return r.range.end <= address; }) -
      all.begin());
}

std::uint32_t MappingTable::access_throughout(Range range) const noexcept {
  const std::size_t i = first_ending_after(range.begin);
  return i < count_ && !range.empty() && master()[i].range.contains(range) ? master()[i].access : 0;
}

void MappingTable::assign(Range range, std::uint32_t access) noexcept {
  if (range.empty()) return;
  // What is left and right of the range, with neighbours of the same access grown together.
  std::size_t first = first_ending_after(range.begin);
  std::size_t last = first;
  std::array<MappedRange, 3> pieces{};
  std::size_t used = 0;
  const auto add = [&](MappedRange piece) {
    if (piece.range.empty() || piece.access == 0) return;
    if (used > 0 && pieces[used - 1].range.end == piece.range.begin && pieces[used - 1].access == piece.access) {
      pieces[used - 1].range.end = piece.range.end;
    } else {
      pieces[used++] = piece;
    }
  };
  while (last < count_ && master()[last].range.begin < range.end) ++last;
  MappedRange left{}, right{};
  if (first < last) {
    left = {{master()[first].range.begin, range.begin}, master()[first].access};
    right = {{range.end, master()[last - 1].range.end}, master()[last - 1].access};
  }
  if (left.range.empty() && first > 0 && master()[first - 1].range.end == range.begin) left = master()[--first];
  if (right.range.empty() && last < count_ && master()[last].range.begin == range.end) right = master()[last++];
  add(left);
  add({range, access});
  add(right);
  if (count_ - (last - first) + used > SharedMappings::kCapacity) {  // unreachable is safe; more than the kernel allows
    used = 0;
  }
  std::memmove(master() + first + used, master() + last, (count_ - last) * sizeof(MappedRange));
  std::copy_n(pieces.begin(), used, master() + first);
  const bool same_place = used == last - first;
  count_ = count_ - (last - first) + used;
  publish(first, same_place ? first + used : count_);
}

void MappingTable::change(Range range, std::uint32_t keep, std::uint32_t add) noexcept {
  for (std::uintptr_t at = range.begin; at < range.end;) {
    const std::size_t i = first_ending_after(at);
    if (i >= count_ || master()[i].range.begin >= range.end) return;
    const MappedRange& found = master()[i];
    const Range piece{std::max(at, found.range.begin), std::min(range.end, found.range.end)};
    const std::uint32_t access = (found.access & keep) | add;
    at = piece.end;
    if (access != found.access) assign(piece, access);
  }
}

void MappingTable::clear_all() noexcept {
  std::swap(master_, spare_);
  spare_count_ = std::exchange(count_, 0);
  quiet_ = true;
}

void MappingTable::append(MappedRange entry) noexcept {
  MappedRange* const previous = count_ > 0 ? &master()[count_ - 1] : nullptr;
  if (previous != nullptr && previous->range.end == entry.range.begin && previous->access == entry.access) {
    previous->range.end = entry.range.end;
  } else if (count_ < SharedMappings::kCapacity) {
    master()[count_++] = entry;
  }
}

void MappingTable::publish_all() noexcept {
  const auto* const before = reinterpret_cast<const MappedRange*>(spare_.data());
  for (std::size_t i = 0; i < spare_count_; ++i) {
    if ((before[i].access & kExcluded) != 0) change(before[i].range, ~0U, kExcluded);
  }
  spare_count_ = 0;
  quiet_ = false;
  publish(0, count_);
}

void MappingTable::publish(std::size_t from, std::size_t to) noexcept {
  if (quiet_) return;
  const std::uint64_t sequence = shared_->sequence.load(kRelaxed);
  shared_->sequence.store(sequence + 1, kRelaxed);
  for (std::size_t i = from; i < to; ++i) {
    shared_->entries[i].begin.store(master()[i].range.begin, kEntryStore);
    shared_->entries[i].end_and_access.store(master()[i].range.end | master()[i].access, kEntryStore);
  }
  shared_->count.store(count_, kEntryStore);
  shared_->sequence.store(sequence + 2, std::memory_order_release);
}

}  // namespace opal::memory
