// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/single_copy/shared_mechanism.hpp — single copy of memory in a shared pool of the peer.  The pool is
// mapped at first use; from then on copies are plain ones by any CPU, without the kernel. The descriptor comes from the
// peer's connection manager, also while the peer's program computes.  Until it arrives the other mechanisms serve, and
// it is asked for again at times.  A pool's file cannot shrink, and a mapping keeps its memory, so the owner's death is
// no SIGBUS. Owns the mappings; at most kMost per peer, the one unused longest is unmapped.  Threads: as the module.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "opal/btl/sm/single_copy/copy_mechanism.hpp"
#include "opal/core/export.hpp"
#include "opal/core/system/mapping.hpp"

namespace opal::btl::sm {

/// A peer's answer to a request for one of its pools.
struct PeerPool {
  std::uint32_t number = 0;
  std::uint64_t base = 0;  ///< address of its first byte in the peer
  Mapping map;             ///< empty: refused, or it could not be mapped

  /// `file`: the pool's descriptor, or -1.
  OPAL_EXPORT static PeerPool attach(std::uint32_t number, std::uint64_t base, int file) noexcept;
};

class OPAL_EXPORT SharedMechanism final : public CopyMechanism {
 public:
  static constexpr std::size_t kMost = 16;
  using Ask = std::function<void(std::uint32_t number)>;

  /// Sets how to ask the peer for a pool.  Required before the first use.
  void on_need(Ask ask) { ask_ = std::move(ask); }
  /// The answer.
  void take(PeerPool pool) noexcept;

  [[nodiscard]] MechanismKind kind() const noexcept override { return MechanismKind::shared; }
  [[nodiscard]] bool reaches_all() const noexcept override { return false; }
  [[nodiscard]] bool reaches(const RemoteRange& range) noexcept override { return map(range) != nullptr; }
  CopyOutcome copy(const RemoteRange& there, std::byte* here, bool write) noexcept override;
  /// Where the range is mapped here; null: it is not in a pool, or the pool is not mapped (yet).
  std::byte* map(const RemoteRange& range) noexcept;

  /// Number of pools that are mapped now.
  [[nodiscard]] std::size_t mapped() const noexcept;

 private:
  struct Entry {
    PeerPool pool;
    bool answered = false;
    std::uint64_t used = 0;
    AskAgain again;
  };
  void need(std::uint32_t number) noexcept;

  Ask ask_;
  std::vector<Entry> entries_;  // few: one pool per process is the rule
  std::uint64_t uses_ = 0;
};

}  // namespace opal::btl::sm
