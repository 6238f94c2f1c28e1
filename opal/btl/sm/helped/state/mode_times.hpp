// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/helped/state/mode_times.hpp — what large gets of one peer's private memory have taken in each transfer
// mode, and the mode to use next.
//
// No threshold fits all machines.  Where a cache line crosses between the cores in 0.06 us, a pipelined get of 256 KiB
// takes 5 us and a single copy 14 us.  Where a line takes 0.25 us, they take 41 and 22 us, and a cooperative get 20 us.
// The distance is that of the two cores, also changes when a process moves, and virtual machines do not tell it.
// Owned by the endpoint.  Threads: as the module.  Cost: no allocation, no system call.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "opal/btl/sm/helped/state/transfer_mode.hpp"

namespace opal::btl::sm {

class ModeTimes {
 public:
  static constexpr std::uint32_t kFirstTrials = 2;  ///< of each mode; the first one also pays for the first use
  static constexpr std::uint32_t kTryEvery = 32;    ///< one get of so many tries another mode, since times change

  /// The mode for the next get of `size` bytes: the fastest one for such sizes, or a trial.
  [[nodiscard]] TransferMode choose(std::uint64_t size) noexcept {
    SizeClass& sizes = size_class(size);
    const std::uint32_t number = sizes.gets++;
    if (number < kFirstTrials * kModes) return static_cast<TransferMode>(number % kModes);
    const auto shorter = [](std::uint32_t a, std::uint32_t b) { return a - 1 < b - 1; };  // 0, not measured, is last
    const auto fastest = static_cast<std::uint32_t>(std::ranges::min_element(sizes.pace, shorter) - sizes.pace.begin());
    if (number % kTryEvery != 0) return static_cast<TransferMode>(fastest);
    return static_cast<TransferMode>((fastest + 1 + number / kTryEvery % (kModes - 1)) % kModes);
  }

  /// A get has taken `ns`.  A shorter time counts at once.  A longer one counts by an eighth: the process may have been
  /// interrupted, and a mode that has become slow is used, so measured, until its time is no longer the shortest.
  /// Help must save a ninth: it takes time of the target too.
  void record(TransferMode mode, std::uint64_t size, std::uint64_t ns) noexcept {
    std::uint32_t& pace = size_class(size).pace[static_cast<std::size_t>(mode)];
    const std::uint64_t cost = mode == TransferMode::alone ? ns : ns + ns / 8;
    const auto now = static_cast<std::uint32_t>(std::clamp<std::uint64_t>((cost << 16) / size, 1, kLongest));
    pace = pace == 0 || now < pace ? now : pace + (std::min(now, 4 * pace) - pace) / 8;
  }

 private:
  static constexpr std::uint32_t kModes = 3;
  static constexpr std::uint32_t kLongest = 1U << 29;
  static constexpr int kFirstClass = 13;  // gets of less than 16 KiB
  static constexpr int kClasses = 8;      // the last one has all gets from 1 MiB on

  struct SizeClass {
    std::array<std::uint32_t, kModes> pace{};  // ns for 64 KiB, by mode; 0: not measured
    std::uint32_t gets = 0;                    // modulo 2^32
  };
  SizeClass& size_class(std::uint64_t size) noexcept {
    const int bits = static_cast<int>(std::bit_width(size)) - 1;
    return classes_[static_cast<std::size_t>(std::clamp(bits - kFirstClass, 0, kClasses - 1))];
  }

  std::array<SizeClass, kClasses> classes_{};
};

}  // namespace opal::btl::sm
