// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/sm/single_copy/probe_page.hpp"

#include <cstring>

namespace opal::btl::sm {
namespace {

std::uint64_t next(std::uint64_t& state) noexcept {  // splitmix64
  state += 0x9e3779b97f4a7c15ULL;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace

ProbePage::ProbePage(std::uint64_t seed) : seed_(seed), bytes_(std::make_unique_for_overwrite<std::byte[]>(kSize)) {
  std::uint64_t state = seed;
  for (std::size_t i = 0; i < kSize; i += sizeof state) {
    const std::uint64_t word = next(state);
    std::memcpy(bytes_.get() + i, &word, sizeof word);
  }
}

bool ProbePage::matches(std::uint64_t seed, ByteSpan bytes) noexcept {
  return bytes.size() == kSize && std::memcmp(bytes.data(), ProbePage{seed}.bytes_.get(), kSize) == 0;
}

}  // namespace opal::btl::sm
