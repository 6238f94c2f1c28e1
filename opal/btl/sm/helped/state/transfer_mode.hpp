// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/helped/state/transfer_mode.hpp — how a large put or get moves.  Size thresholds choose; opal-perf tune
// finds those of a machine.  Pure functions.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>

#include "opal/btl/sm/config.hpp"
#include "opal/btl/sm/helped/state/helped_ring.hpp"
#include "opal/btl/sm/single_copy/remote_memory.hpp"

namespace opal::btl::sm {

enum class TransferMode : std::uint8_t {
  alone,        ///< single copy by the initiator; if nothing reaches the memory, messages
  cooperative,  ///< single copy by both, each a share
  pipelined,    ///< two copies: by the target into chunks, and by the initiator out of them
};

class TransferModes {
 public:
  /// `forced`: the mode of every transfer that it is possible for (btl_sm_large_get).
  TransferModes(const Config& config, std::optional<TransferMode> forced) noexcept
      : forced_(forced), private_from_(config.help_from.bytes), mapped_from_(config.shared_help_from.bytes) {}

  /// Smaller transfers are never helped.
  [[nodiscard]] std::uint64_t least_helped() const noexcept {
    return forced_ ? wire::kHelpUnit : std::min({private_from_, mapped_from_, kPipelineFrom});
  }

  /// `get`: chunks are for gets only.  `away`: the target is not running now.
  [[nodiscard]] TransferMode choose(const Target& target, bool get, bool away) const noexcept {
    const std::uint64_t size = target.range.size;
    if (!target.checked || size < least_helped() || size > wire::kHelpUnit * wire::kMostHelpUnits) {
      return TransferMode::alone;
    }
    if (target.access == Target::Access::messages) {
      const std::uint64_t from = forced_ == TransferMode::pipelined ? wire::kHelpUnit : kPipelineFrom;
      return get && size >= from ? TransferMode::pipelined : TransferMode::alone;
    }
    if (away) return TransferMode::alone;
    const bool mapped = target.access == Target::Access::mapped;
    if (forced_ && (forced_ != TransferMode::pipelined || (get && !mapped))) return *forced_;
    return size >= (mapped ? mapped_from_ : private_from_) ? TransferMode::cooperative : TransferMode::alone;
  }

 private:
  /// Smallest get through chunks, of memory that no copy mechanism reaches.  Below, messages cost less.
  static constexpr std::uint64_t kPipelineFrom = 8192;

  std::optional<TransferMode> forced_;
  std::uint64_t private_from_;
  std::uint64_t mapped_from_;
};

}  // namespace opal::btl::sm
