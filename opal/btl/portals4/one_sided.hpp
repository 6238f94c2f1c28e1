// SPDX-License-Identifier: Apache-2.0
// opal/btl/portals4/one_sided.hpp — puts, gets and atomics of this process by the interface.
// A put or get that fails here is repeated by messages: both may be repeated, and the target of messages refuses
// precisely.  A failed atomic ends with an error.
// Portals cannot cancel an operation.  When an endpoint ends with operations in flight, drop() waits for their events,
// which the interface delivers in any case; targets need not call anything for that.
// Owned by the module.  Threads: as the module.
#pragma once
#include <cstdint>
#include <deque>
#include <vector>

#include "opal/btl/portals4/device/interface.hpp"
#include "opal/btl/shared/rdm/endpoint.hpp"
#include "opal/btl/shared/rdma_operations.hpp"

namespace opal::btl::portals4 {

class Module;

class OneSided {
 public:
  static constexpr std::size_t kDepth = 64;  ///< pieces in flight

  explicit OneSided(Module& module);
  OneSided(const OneSided&) = delete;
  OneSided& operator=(const OneSided&) = delete;
  ~OneSided() = default;

  /// True if the interface has the atomic.
  [[nodiscard]] static bool has(AtomicOp op, AtomicType type) noexcept;
  /// As rdm::Transport::post_piece().
  [[nodiscard]] Post post(RdmaOperation& operation) noexcept;
  /// Pieces without their event.
  [[nodiscard]] std::size_t in_flight() const noexcept { return kDepth - free_.size(); }
  /// Handles the event that ends the piece `ended`.
  void on_event(Operation& ended, const ptl_event_t& event) noexcept;
  /// True while drop() waits for the end of the piece.
  [[nodiscard]] static bool waits_for(const Operation& piece) noexcept {
    return static_cast<const Piece&>(piece).awaited;
  }
  /// As rdm::Transport::drop_pieces().
  void drop(const rdm::Endpoint& endpoint) noexcept;

 private:
  struct Piece : Operation {
    Piece() noexcept : Operation(Kind::one_sided) {}
    RdmaOperation* operation = nullptr;  // null: free, or given up by drop()
    bool awaited = false;                // drop() waits for its event
    std::uint64_t size = 0;
    std::uint64_t operand = 0;  // of an atomic
    std::uint64_t compare = 0;
    std::uint64_t old = 0;
  };
  [[nodiscard]] int call(const RdmaOperation& operation, Piece& piece) noexcept;

  Module& module_;
  std::deque<Piece> pieces_;
  std::vector<Piece*> free_;
};

}  // namespace opal::btl::portals4
