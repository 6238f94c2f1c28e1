// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/single_copy/probe_page.hpp — a page whose content follows from a seed that the peer knows.  By copying it
// the peer tests whether a mechanism reaches this process.  In another PID namespace the PID may name another process.
// Threads: constant after construction.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "opal/core/bytes.hpp"
#include "opal/core/export.hpp"

namespace opal::btl::sm {

class OPAL_EXPORT ProbePage {
 public:
  static constexpr std::size_t kSize = 4096;
  explicit ProbePage(std::uint64_t seed);
  [[nodiscard]] std::uint64_t address() const noexcept { return reinterpret_cast<std::uint64_t>(bytes_.get()); }
  [[nodiscard]] std::uint64_t seed() const noexcept { return seed_; }
  /// True when `bytes` are the content of a page with this seed.
  static bool matches(std::uint64_t seed, ByteSpan bytes) noexcept;

 private:
  std::uint64_t seed_;
  std::unique_ptr<std::byte[]> bytes_;
};

}  // namespace opal::btl::sm
