// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "opal/core/clock.hpp"
#include "runtime/tools/perf/tests/tests.hpp"

namespace opal::perf {
namespace {

constexpr int kBatch = 200;
constexpr int kBatches = 400;
constexpr std::uint64_t kLongestNs = 1'000'000'000;

}  // namespace

std::optional<Latency> cache_line_floor(int rank, MutableBytes page) {
  if (page.size() < 2 * kCacheLine) return std::nullopt;
  // One line per direction, as a ring buffer would have it.
  std::atomic_ref<std::uint64_t> ping{*reinterpret_cast<std::uint64_t*>(page.data())};
  std::atomic_ref<std::uint64_t> pong{*reinterpret_cast<std::uint64_t*>(page.data() + kCacheLine)};
  // Where others use the cores, each turn may take a time slice: rank 0 ends it in time.
  constexpr std::uint64_t kOver = ~std::uint64_t{0};
  if (rank != 0) {
    for (std::uint64_t seen = 0; seen != kOver;) {
      const std::uint64_t now = ping.load(std::memory_order_acquire);
      if (now != seen) pong.store(seen = now, std::memory_order_release);
    }
    return std::nullopt;
  }
  std::uint64_t turn = 0;
  std::vector<double> samples;
  const std::uint64_t begin = now_ns();
  const auto take_turn = [&](std::uint64_t number) {
    ping.store(number, std::memory_order_release);
    while (pong.load(std::memory_order_acquire) != number) {
    }
  };
  for (int batch = 0; batch < kBatches && (samples.empty() || now_ns() - begin < kLongestNs); ++batch) {
    const std::uint64_t start = now_ns();
    for (int i = 0; i < kBatch; ++i) take_turn(++turn);
    samples.push_back(static_cast<double>(now_ns() - start) / kBatch / 2);
  }
  take_turn(kOver);
  return statistics(std::move(samples));
}

double memcpy_Bps(std::uint64_t size) {
  if (size == 0) return 0;
  // Both on a page's border: processors copy at a tenth of their speed to a place a few bytes below a multiple of 4 KiB
  // from the source, which is where malloc puts two blocks of a power of two.
  constexpr std::uint64_t kBorder = 4096;
  const std::uint64_t room = (size + kBorder - 1) / kBorder * kBorder;
  const std::unique_ptr<std::byte, decltype(&std::free)> memory{
      static_cast<std::byte*>(std::aligned_alloc(kBorder, 2 * room)), &std::free};
  if (memory == nullptr) return 0;
  std::byte* const from = memory.get();
  std::byte* const to = from + room;
  std::memset(from, 1, 2 * room);
  const std::uint64_t repeat = std::max<std::uint64_t>(1, (8ULL << 20) / size);
  double best = 0;
  for (int batch = 0; batch < 5; ++batch) {
    const std::uint64_t start = now_ns();
    for (std::uint64_t i = 0; i < repeat; ++i) {
      std::memcpy(to, from, size);
      asm volatile("" : : "r"(to) : "memory");  // the copy is the point: keep it
    }
    best = std::max(best, static_cast<double>(size * repeat) * 1e9 / static_cast<double>(now_ns() - start));
  }
  return best;
}

}  // namespace opal::perf
