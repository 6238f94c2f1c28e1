// SPDX-License-Identifier: Apache-2.0
// opal/btl/ofi/one_sided_endpoint.hpp — the libfabric endpoint for puts and gets of this process, opened by the first
// put or get.  It is not the endpoint of messages, for two reasons:
//   - A provider may end its connection to a peer when it refuses an operation; messages must survive that.
//   - libfabric cannot cancel an operation.  When an rdm::Endpoint (a peer) ends with operations in flight, drop()
//     closes the one-sided endpoint, after which the provider does not access the caller's memory, and posts the
//     operations of other peers again, which opens a new one.
// An operation that fails here is repeated by messages.  That is allowed since puts and gets are idempotent, and the
// target's registration table then gives the precise error.
// Owned by the module.  Threads: as the module.
#pragma once
#include <cstdint>
#include <deque>
#include <vector>

#include "opal/btl/ofi/device/device.hpp"
#include "opal/btl/ofi/memory/memory.hpp"
#include "opal/btl/shared/rdma_operations.hpp"
#include "opal/rcache/registrations/lease.hpp"

namespace opal::btl::ofi {

class Module;

class OneSidedEndpoint {
 public:
  explicit OneSidedEndpoint(Module& module);
  OneSidedEndpoint(const OneSidedEndpoint&) = delete;
  OneSidedEndpoint& operator=(const OneSidedEndpoint&) = delete;
  ~OneSidedEndpoint() = default;

  /// As rdm::Transport::post_piece().
  [[nodiscard]] Post post(RdmaOperation& operation) noexcept;
  /// The queue of its completions; null: it is not open.
  [[nodiscard]] fid_cq* completions() const noexcept { return fabric_.completions.get(); }
  /// A piece has ended; `why`: its error, with code 0 for success.
  void on_done(Operation& piece, const Error& why) noexcept;
  /// As rdm::Transport::drop_pieces().
  void drop(const btl::Endpoint& endpoint) noexcept;
  /// Number of closes so far.  A completion that was read from the queue before the last close must be ignored: its
  /// piece may be in use again.
  [[nodiscard]] std::uint64_t closings() const noexcept { return closings_; }
  /// Prepares a sleep; false: there is work.
  [[nodiscard]] bool arm() const noexcept;
  /// True if operations are in flight and no descriptor reports their end.
  [[nodiscard]] bool must_poll() const noexcept { return in_flight() != 0 && fabric_.wait_fd < 0; }

 private:
  struct Piece : Operation {
    Piece() noexcept : Operation(Kind::one_sided) {}
    RdmaOperation* operation = nullptr;  // null: free
    std::uint64_t size = 0;
    rcache::Lease lease;  // of local memory
    Memory::Local local;
    MemoryRegion pinned;
  };
  Result<void> open() noexcept;
  void close() noexcept;
  /// Number of pieces in flight.
  [[nodiscard]] std::size_t in_flight() const noexcept { return pieces_.size() - free_.size(); }
  [[nodiscard]] Result<void*> find_memory(Piece& piece, const RdmaOperation& operation, std::byte* local,
                                          std::uint64_t size) noexcept;
  static void release(Piece& piece) noexcept;

  Module& ofi_;
  std::deque<Piece> pieces_;
  std::vector<Piece*> free_;
  std::uint64_t closings_ = 0;
  FabricEndpoint fabric_;  // closed before the memory that it uses
};

}  // namespace opal::btl::ofi
