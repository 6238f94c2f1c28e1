// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/single_copy/shared_mechanism.hpp — single copy of memory in a shared pool of the peer.  The first use
// requests the pool's descriptor from the peer's connection manager, which answers also while the peer's program
// computes.  Until the pool is mapped, copy() fails with busy and the other mechanisms copy.  Then copies are plain
// loads and stores, without the kernel.  A pool's file cannot shrink, and a mapping keeps its memory, so the owner's
// death causes no SIGBUS. Owns the mappings, at most kMost per peer; the least recently used is unmapped.
// Threads: as the module.
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
  std::uint64_t base = 0;  ///< address of the pool's first byte in the peer
  Mapping map;             ///< empty: the peer has refused, or mapping has failed

  /// Maps the pool whose descriptor is `file`, which stays the caller's; -1: the peer has refused.
  OPAL_EXPORT static PeerPool attach(std::uint32_t number, std::uint64_t base, int file) noexcept;
};

class OPAL_EXPORT SharedMechanism final : public CopyMechanism {
 public:
  static constexpr std::size_t kMost = 16;
  using Ask = std::function<void(std::uint32_t number)>;

  /// Sets the function that requests a pool from the peer.  Required before the first use.
  void on_need(Ask ask) { ask_ = std::move(ask); }
  /// Takes the peer's answer to a request.
  void take(PeerPool pool) noexcept;

  [[nodiscard]] MechanismKind kind() const noexcept override { return MechanismKind::shared; }
  [[nodiscard]] bool reaches_all() const noexcept override { return false; }
  [[nodiscard]] bool reaches(const RemoteRange& range) noexcept override { return map(range) != nullptr; }
  CopyOutcome copy(const RemoteRange& there, std::byte* here, bool write) noexcept override;
  /// The address at which the range is mapped in this process, valid until the next map() or take(); null: it is not in
  /// a pool, or the pool is not mapped (yet).  Requests an unknown pool.
  std::byte* map(const RemoteRange& range) noexcept;

 private:
  friend struct TestAccess;
  struct Entry {
    PeerPool pool;
    bool answered = false;   // false: the request has no answer yet
    std::uint64_t used = 0;  // value of uses_ at the last use
  };
  void need(std::uint32_t number) noexcept;

  Ask ask_;
  std::vector<Entry> entries_;  // few: most processes have one pool
  std::uint64_t uses_ = 0;
};

}  // namespace opal::btl::sm
