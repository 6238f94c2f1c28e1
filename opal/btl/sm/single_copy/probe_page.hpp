// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/single_copy/probe_page.hpp — a page whose content a peer knows, so that a real copy shows whether a
// mechanism reaches our memory and not another process's: in another namespace the same PID may name one.
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
  /// True when `bytes` are what a page with this seed holds.
  static bool matches(std::uint64_t seed, ByteSpan bytes) noexcept;

 private:
  std::uint64_t seed_;
  std::unique_ptr<std::byte[]> bytes_;
};

}  // namespace opal::btl::sm
