// SPDX-License-Identifier: Apache-2.0
// opal/btl/sim/one_sided.hpp — the initiator's side of put, get and atomic of one device.
// Local memory: small transfers travel in the packet; others need it registered, as with real devices: by the caller's
// handle, else through the registration cache that the module was given, else for this one operation.  Large ones and
// whole address spaces are pipelined_transfers.hpp's, which comes back with pieces.
// Owned by its module, made at its first operation.  Threads: as the module.
#pragma once
#include <vector>

#include "opal/btl/memory_handle.hpp"
#include "opal/btl/post.hpp"
#include "opal/btl/shared/pipelined_transfers.hpp"
#include "opal/btl/shared/rdma_operations.hpp"
#include "opal/btl/sim/transfer.hpp"
#include "opal/rcache/cache.hpp"

namespace opal::btl::sim {

class Endpoint;
class Module;
struct Packet;

class OneSided {
 public:
  OneSided(Module& module, RdmaEmulation& emulation, RdmaOperations& operations) noexcept;

  /// `bytes`: the source of a put, the destination of a get.
  Post move(RdmaOperation::Kind kind, Endpoint& to, std::byte* bytes, const MemoryHandle* local,
            std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
            Completion& completion) noexcept;
  Post atomic(Endpoint& to, const AtomicRequest& request, Completion& completion) noexcept;

  /// A response has come for an operation on `from`.
  void complete(Endpoint& from, Packet& response) noexcept;
  /// Ends every operation on `endpoint` with `why`; its link is closed already.
  void end_all(Endpoint& endpoint, const Error& why) noexcept;

  [[nodiscard]] PipelinedTransfers& transfers() noexcept { return transfers_; }

 private:
  /// An operation's hold on its local memory.
  struct Local {
    rcache::Lease lease;
    MemoryHandle handle;  // registered for this operation alone
    bool registered = false;
  };

  Result<Key> hold(Local& local, const MemoryHandle* given, std::byte* bytes, std::uint64_t size) noexcept;
  void post(Endpoint& to, const Transfer& transfer, ByteSpan inline_bytes, std::size_t room) noexcept;
  void release(Local& local) noexcept;
  void end(RdmaOperation& operation, const Error& why) noexcept;

  Module& module_;
  RdmaEmulation& emulation_;
  RdmaOperations& operations_;
  PipelinedTransfers transfers_;
  std::vector<Local> locals_;  // by the operation's slot
};

}  // namespace opal::btl::sim
