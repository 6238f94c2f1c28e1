// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/smcuda/exports.hpp"

#include <algorithm>

namespace opal::btl::smcuda {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

void lower(std::atomic<std::uint64_t>& word, std::uint64_t value) noexcept {
  for (std::uint64_t seen = word.load(kRelaxed); value < seen && !word.compare_exchange_weak(seen, value);) {
  }
}
void raise(std::atomic<std::uint64_t>& word, std::uint64_t value) noexcept {
  for (std::uint64_t seen = word.load(kRelaxed); value > seen && !word.compare_exchange_weak(seen, value);) {
  }
}

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
  lower(low_, memory.base);
  raise(high_, end);
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
  if (!range.overlaps({low_.load(kRelaxed), high_.load(kRelaxed)})) return;  // the common case
  reports_begun_.fetch_add(1);
  lower(reported_low_, range.begin);
  raise(reported_high_, range.end);
  reports_ended_.fetch_add(1);
}

void Exports::take_reported() noexcept {
  const std::uint64_t ended = reports_ended_.load();
  if (reports_begun_.load() != ended) return;
  const std::uint64_t low = reported_low_.exchange(UINT64_MAX);
  const std::uint64_t high = reported_high_.exchange(0);
  if (reports_begun_.load() == ended) return drop_overlapping(low, high);
  lower(reported_low_, low);  // a report ran meanwhile: low and high may contain half of it
  raise(reported_high_, high);
}

bool Exports::take_freed(wire::Freed& freed) noexcept {
  if (reported_high_.load(kRelaxed) != 0) take_reported();
  if (freed_.empty()) return false;
  freed = freed_.back();
  freed_.pop_back();
  return true;
}

}  // namespace opal::btl::smcuda
