// SPDX-License-Identifier: Apache-2.0
// opal/btl/ofi/one_sided_endpoint.hpp — the libfabric endpoint for puts and gets of this process, opened by the first
// one. It is not the endpoint of messages, for two reasons:
//   - A provider may end its connection to a peer when it refuses an operation; messages must survive that.
//   - libfabric cannot cancel an operation.  When an endpoint ends with operations in flight, the module closes the
//     one-sided endpoint, after which the provider does not access the caller's memory, and posts the operations of
//     other peers again.
// An operation that fails here is repeated by messages: puts and gets may be repeated, and the target of messages
// refuses precisely.  Owned by the module.  Threads: as the module.
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
  explicit OneSidedEndpoint(Module& module) noexcept : ofi_(module) {}
  OneSidedEndpoint(const OneSidedEndpoint&) = delete;
  OneSidedEndpoint& operator=(const OneSidedEndpoint&) = delete;
  ~OneSidedEndpoint() = default;

  /// Takes a put or get, whose Transfer is set.  `local`: the registration of its local buffer; may be empty.
  /// Errors: those of opening the one-sided endpoint.
  Result<void> start(RdmaOperation& operation, Memory::Local local) noexcept;
  /// Takes completions; true: there were some.
  bool poll() noexcept;
  /// Posts what found no room.
  void resume() noexcept { advance(); }
  /// A piece has ended; `why`: its error, with code 0 for success.
  void on_done(Operation& piece, const Error& why) noexcept;
  /// Gives up the operations on the endpoint; afterwards the provider does not access their memory.  The caller
  /// finishes them.
  void drop(const btl::Endpoint& endpoint) noexcept;
  /// Prepares a sleep; false: there is work.
  [[nodiscard]] bool arm() noexcept;
  /// True if operations are in flight and no descriptor reports their end.
  [[nodiscard]] bool must_poll() const noexcept { return in_flight_ != 0 && fabric_.wait_fd < 0; }

 private:
  enum class Room : std::uint8_t { posted, later, refused };
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
  void advance() noexcept;
  [[nodiscard]] Room post(RdmaOperation& operation) noexcept;
  [[nodiscard]] Result<void*> find_memory(Piece& piece, const RdmaOperation& operation, std::byte* local,
                                          std::uint64_t size) noexcept;
  static void release(Piece& piece) noexcept;
  void finish_if_ended(RdmaOperation& operation) noexcept;

  Module& ofi_;
  std::deque<Piece> pieces_;
  std::vector<Piece*> free_;
  std::uint32_t in_flight_ = 0;
  std::deque<Memory::Local> locals_;      // of callers' handles, by the operation's slot
  std::vector<RdmaOperation*> unposted_;  // in order of start(); the first may be posted in part
  std::vector<RdmaOperation*> started_;   // all operations of the one-sided endpoint
  FabricEndpoint fabric_;                 // closed before the memory that it uses
};

}  // namespace opal::btl::ofi
