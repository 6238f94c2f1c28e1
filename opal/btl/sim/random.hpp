// SPDX-License-Identifier: Apache-2.0
// opal/btl/sim/random.hpp — the fabric's random numbers: splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom
// number generators", OOPSLA 2014), eight bytes of state, the same on every machine.
#pragma once
#include <cstdint>

namespace opal::btl::sim {

class Random {
 public:
  explicit constexpr Random(std::uint64_t seed) noexcept : state_(seed) {}

  constexpr std::uint64_t next() noexcept {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  /// 0 .. most, both included.
  constexpr std::uint64_t up_to(std::uint64_t most) noexcept {
    return most == UINT64_MAX ? next() : next() % (most + 1);
  }
  /// True with this probability.
  constexpr bool chance(double probability) noexcept {
    return probability > 0 && static_cast<double>(next() >> 11) * 0x1p-53 < probability;
  }

 private:
  std::uint64_t state_;
};

}  // namespace opal::btl::sim
