// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/single_copy/shared_mechanism.hpp — single copy where the peer's memory lies in one of its shared pools: we map the
// pool at the first use, and from then on copies are plain ones, by whoever has time, without the kernel. The
// descriptor comes over the connection's socket from the peer's connection manager, whatever the peer's program is
// doing; until it is here the other mechanisms serve, and it is asked for again now and then.  A pool's file cannot
// shrink, and a mapping keeps its memory, so the owner's death is noticed as ever and is no SIGBUS.  Owns the mappings;
// at most kMost per peer, the one unused longest goes. Threads: as the module.
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

  /// Must be said before the first use: how to ask the peer for a pool.
  void on_need(Ask ask) { ask_ = std::move(ask); }
  /// The answer.
  void take(PeerPool pool) noexcept;

  [[nodiscard]] MechanismKind kind() const noexcept override { return MechanismKind::shared; }
  [[nodiscard]] bool reaches_all() const noexcept override { return false; }
  [[nodiscard]] bool reaches(const RemoteRange& range) noexcept override { return map(range) != nullptr; }
  CopyOutcome read(std::byte* to, const RemoteRange& from) noexcept override;
  CopyOutcome write(const RemoteRange& to, const std::byte* from) noexcept override;
  std::byte* map(const RemoteRange& range) noexcept override;

  /// Pools mapped now, for tests and tools.
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
