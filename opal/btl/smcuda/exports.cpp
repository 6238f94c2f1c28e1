// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/smcuda/exports.hpp"

#include <algorithm>

namespace opal::btl::smcuda {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

}  // namespace

void Exports::add(const gpu::MemoryHandle& memory) {
  if (const auto known = live_.find(memory.base);
      known != live_.end() && known->second.buffer_id == memory.buffer_id && known->second.size == memory.size) {
    return;
  }
  if (!listening_) listening_ = static_cast<bool>(memory::add_listener(*this));  // on failure: peers compare handles
  const std::uint64_t end = memory.base + memory.size;
  drop_overlapping(memory.base, end);
  if (live_.size() == kMost) live_.erase(live_.begin());
  live_[memory.base] = {memory.size, memory.buffer_id};
  low_.store(std::min(low_.load(kRelaxed), memory.base), kRelaxed);
  high_.store(std::max(high_.load(kRelaxed), end), kRelaxed);
}

/// Moves all allocations that overlap [base, end) to freed_: live allocations do not overlap.
void Exports::drop_overlapping(std::uint64_t base, std::uint64_t end) noexcept {
  auto entry = live_.upper_bound(base);
  if (entry != live_.begin() && std::prev(entry)->first + std::prev(entry)->second.size > base) --entry;
  while (entry != live_.end() && entry->first < end) {
    if (freed_.size() < kMost) freed_.push_back({entry->first, entry->second.size});
    entry = live_.erase(entry);
  }
}

void Exports::released(memory::Range range) noexcept {
  if (range.overlaps({low_.load(kRelaxed), high_.load(kRelaxed)})) reported_.add(range);
}

bool Exports::take_freed(wire::Freed& freed) noexcept {
  const bool some_lost = reported_.take([this](memory::Range range) { drop_overlapping(range.begin, range.end); });
  if (some_lost) drop_overlapping(0, UINT64_MAX);
  if (freed_.empty()) return false;
  freed = freed_.back();
  freed_.pop_back();
  return true;
}

}  // namespace opal::btl::smcuda
