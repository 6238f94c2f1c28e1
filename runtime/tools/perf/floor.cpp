// SPDX-License-Identifier: Apache-2.0
#include "runtime/tools/perf/floor.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "opal/core/clock.hpp"

namespace opal::perf {
namespace {

constexpr int kBatch = 200;
constexpr int kBatches = 400;

}  // namespace

std::optional<Latency> CacheLineFloor::measure() {
  if (page_.size() < 2 * kCacheLine) return std::nullopt;
  // One line per direction, as a ring buffer would have it.
  std::atomic_ref<std::uint64_t> ping{*reinterpret_cast<std::uint64_t*>(page_.data())};
  std::atomic_ref<std::uint64_t> pong{*reinterpret_cast<std::uint64_t*>(page_.data() + kCacheLine)};
  std::vector<double> samples;
  for (int batch = 0; batch < kBatches; ++batch) {
    const std::uint64_t start = now_ns();
    for (int i = 0; i < kBatch; ++i) {
      ++turn_;
      if (rank_ == 0) {
        ping.store(turn_, std::memory_order_release);
        while (pong.load(std::memory_order_acquire) != turn_) {
        }
      } else {
        while (ping.load(std::memory_order_acquire) != turn_) {
        }
        pong.store(turn_, std::memory_order_release);
      }
    }
    samples.push_back(static_cast<double>(now_ns() - start) / kBatch / 2);
  }
  if (rank_ != 0) return std::nullopt;
  return statistics(std::move(samples));
}

double memcpy_Bps(std::uint64_t size) {
  if (size == 0) return 0;
  std::vector<std::byte> from(size, std::byte{1});
  std::vector<std::byte> to(size);
  const std::uint64_t repeat = std::max<std::uint64_t>(1, (8ULL << 20) / size);
  double best = 0;
  for (int batch = 0; batch < 5; ++batch) {
    const std::uint64_t start = now_ns();
    for (std::uint64_t i = 0; i < repeat; ++i) {
      std::memcpy(to.data(), from.data(), size);
      asm volatile("" : : "r"(to.data()) : "memory");  // the copy is the point: keep it
    }
    best = std::max(best, static_cast<double>(size * repeat) * 1e9 / static_cast<double>(now_ns() - start));
  }
  return best;
}

}  // namespace opal::perf
