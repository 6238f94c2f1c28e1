// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/helped/state/transfer_mode.hpp — chooses the transfer mode of a large put or get: by thresholds of its
// size, or by what earlier gets have taken (mode_times.hpp).  Pure functions.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>

#include "opal/btl/sm/config.hpp"
#include "opal/btl/sm/helped/state/helped_ring.hpp"
#include "opal/btl/sm/single_copy/remote_memory.hpp"

namespace opal::btl::sm {

enum class TransferMode : std::uint8_t {
  alone,        ///< single copy by the initiator, or messages where no copy mechanism reaches the memory
  cooperative,  ///< single copy by both sides, each a share
  pipelined,    ///< gets only, two copies: by the target into chunks, by the initiator out of them
  measured,     ///< a choice only: the one that has been the fastest for such gets
};

class TransferModes {
 public:
  /// `forced`: use this mode wherever it is possible (btl_sm_large_get); none: choose by size.  A get of at least
  /// kGetFrom bytes that only the owner of the memory can serve is pipelined in any case.
  TransferModes(const Config& config, std::optional<TransferMode> forced) noexcept
      : forced_(forced), mapped_from_(config.shared_help_from.bytes) {}

  /// Bytes below which every transfer is `alone`.
  [[nodiscard]] std::uint64_t least_helped() const noexcept {
    return forced_ ? wire::kHelpUnit : std::min(mapped_from_, kGetFrom);
  }

  /// Chooses the mode of one transfer.  `get`: a get, else a put.  `away`: the target sleeps, computes, or may not run
  /// now since processes outnumber cores; it is asked only for a get that it alone can serve.  `attached`: the copy
  /// mechanism is xpmem, which attaches the memory for the copy; then a get is pipelined only if forced.
  [[nodiscard]] TransferMode choose(const Target& target, bool get, bool away, bool attached = false) const noexcept {
    const std::uint64_t size = target.range.size;
    if (!target.checked || size < least_helped() || size > wire::kHelpUnit * wire::kMostHelpUnits) {
      return TransferMode::alone;
    }
    if (target.access == Target::Access::messages) {
      const std::uint64_t from = forced_ == TransferMode::pipelined ? wire::kHelpUnit : kGetFrom;
      return get && size >= from ? TransferMode::pipelined : TransferMode::alone;
    }
    if (away) return TransferMode::alone;
    const bool mapped = target.access == Target::Access::mapped;
    if (forced_ && (forced_ != TransferMode::pipelined || (get && !mapped))) return *forced_;
    if (get && !mapped && !attached) return size >= kGetFrom ? TransferMode::measured : TransferMode::alone;
    return size >= (mapped ? mapped_from_ : kCooperativeFrom) ? TransferMode::cooperative : TransferMode::alone;
  }

 private:
  /// Bytes of the smallest helped get of memory that is not mapped.  Below, `alone` costs less on all hosts.
  static constexpr std::uint64_t kGetFrom = 8192;
  /// Bytes of the smallest cooperative transfer of private memory (puts; gets by xpmem only): each side needs system
  /// calls, and smaller shares cost more than they save.
  static constexpr std::uint64_t kCooperativeFrom = 64 << 10;

  std::optional<TransferMode> forced_;
  std::uint64_t mapped_from_;
};

}  // namespace opal::btl::sm
