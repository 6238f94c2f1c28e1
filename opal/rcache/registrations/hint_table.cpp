// SPDX-License-Identifier: Apache-2.0
#include "opal/rcache/registrations/hint_table.hpp"

#include <new>
#include <utility>

namespace opal::rcache {

void HintTable::remember(std::uintptr_t begin, Registration& registration) noexcept {
  if (owned_ == nullptr) return;
  insert(begin, registration);
  for (const std::uintptr_t block : kBlocks) {
    const std::uintptr_t first = begin & ~(block - 1);
    if (registration.length() <= block || !registration.contains(first, first + block)) continue;
    insert(first + block / 2, registration);
    blocks_.fetch_or(block, std::memory_order_relaxed);
  }
}

void HintTable::insert(std::uintptr_t key, Registration& registration) noexcept {
  const std::uint64_t h = hash(key);
  auto& words = owned_->rows[h & owned_->mask].words;
  const std::uint64_t word = tag(h) << kTagShift | reinterpret_cast<std::uintptr_t>(&registration);
  std::atomic<std::uint64_t>* place = nullptr;
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::atomic<std::uint64_t>& slot = words[(first(h) + i) % words.size()];
    const std::uint64_t old = slot.load(std::memory_order_relaxed);
    if (old == word) return;
    if (place == nullptr && old == 0) place = &slot;
  }
  // It does not test whether the registrations of a full line still serve: each test could miss the caches.
  if (place == nullptr) place = &words[victim_++ % words.size()];
  place->store(word, std::memory_order_release);
}

std::size_t HintTable::wanted(std::size_t registrations) const noexcept {
  constexpr std::size_t kFirst = 64;  // lines: 4 KiB
  constexpr std::size_t kGrowth = 2;  // each step loses all hints, but a larger table causes more cache misses
  const std::size_t now = owned_ != nullptr ? owned_->mask + 1 : 0;
  if (now == 0) return kFirst;
  return registrations > 2 * now ? now * kGrowth : 0;  // grow when more than a quarter of the words is needed
}

std::unique_ptr<HintTable::Lines> HintTable::make(std::size_t lines) noexcept {
  auto rows = make_large_array<Lines::Line>(lines);
  if (rows == nullptr) return nullptr;
  return std::unique_ptr<Lines>{new (std::nothrow) Lines{std::move(rows), lines}};
}

void HintTable::take(std::unique_ptr<Lines> lines) noexcept {
  abandon();
  owned_ = std::move(lines);
  lines_.store(owned_.get(), std::memory_order_release);
}

void HintTable::abandon() noexcept {
  lines_.store(nullptr, std::memory_order_release);
  blocks_.store(0, std::memory_order_relaxed);
  if (owned_ == nullptr) return;
  owned_->before = std::move(outgrown_);
  outgrown_ = std::move(owned_);
}

}  // namespace opal::rcache
