// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/sm/single_copy/probe_page.hpp"

#include <sodium.h>

#include <array>
#include <cstring>

namespace opal::btl::sm {

ProbePage::ProbePage(std::uint64_t seed) : seed_(seed), bytes_(std::make_unique_for_overwrite<std::byte[]>(kSize)) {
  std::array<unsigned char, randombytes_SEEDBYTES> input{};
  std::memcpy(input.data(), &seed, sizeof seed);
  ::randombytes_buf_deterministic(bytes_.get(), kSize, input.data());
}

bool ProbePage::matches(std::uint64_t seed, ByteSpan bytes) noexcept {
  return bytes.size() == kSize && std::memcmp(bytes.data(), ProbePage{seed}.bytes_.get(), kSize) == 0;
}

}  // namespace opal::btl::sm
