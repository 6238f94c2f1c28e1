// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/rdma_emulation.hpp — put, get and atomics by active messages, for a transport or a peer without
// native ones.
//   put     The initiator sends PutPieces.  Each carries the handle, the range of the whole put and its own place.  The
//           target checks the whole range at each piece, writes the piece, and answers the last one with a Reply.
//   get     The initiator sends a GetRequest.  The target sends GetPieces in order.
//   atomic  The initiator sends an AtomicRequest.  The target answers with a Reply.
// A Reply with an error ends any of them.  The target's answer completes an operation, so a completed put is visible.
// The operations are in the module's RdmaOperations, whose flush() waits for them.
// Owned by its Module.  Threads: as the module.  Bytes of peers are checked before any use.
#pragma once
#include <cstdint>
#include <memory>

#include "opal/btl/atomic.hpp"
#include "opal/btl/handlers.hpp"
#include "opal/btl/memory_handle.hpp"
#include "opal/btl/post.hpp"
#include "opal/btl/shared/rdma_operations.hpp"
#include "opal/core/export.hpp"

namespace opal::btl {

class RdmaReplies;

class OPAL_EXPORT RdmaEmulation {
 public:
  RdmaEmulation(Module& module, RdmaOperations& operations);
  ~RdmaEmulation();
  RdmaEmulation(const RdmaEmulation&) = delete;
  RdmaEmulation& operator=(const RdmaEmulation&) = delete;

  /// Adds the handlers of the emulation, of PipelinedTransfers and of checkpoints to a Context's table.  Called once
  /// per table, before the first module is opened.
  static Result<void> install(HandlerTable& handlers);

  /// As Module's functions.  `remote` is a SoftwareHandle, else `failed` with invalid_argument.
  Post transfer(RdmaOperation::Kind kind, Endpoint& to, std::byte* here, std::uint64_t remote_address,
                const MemoryHandle& remote, std::uint64_t size, Completion& completion) noexcept;
  Post atomic(Endpoint& to, const AtomicRequest& request, Completion& completion) noexcept;

  /// Sends what back-pressure has delayed.  The module's progress() calls it.  Returns the number of events.
  std::size_t progress() noexcept { return busy_ ? send_waiting() : 0; }
  /// True when nothing waits to be sent or for a GPU.  While it is false, a module that gets no event for new room in
  /// the transport must not sleep.
  [[nodiscard]] bool idle() const noexcept;
  /// For the arm() of a module that gets an event for new room in the transport: sends what it can.  False: the module
  /// must not sleep, since something was sent, or since a GPU copies, which causes no wake-up.
  [[nodiscard]] bool arm() noexcept;
  /// The queue of delayed answers, for the messages of PipelinedTransfers too; progress() sends it.
  [[nodiscard]] RdmaReplies& replies() noexcept;
  /// Operations of the emulation in flight.  Cost: a scan of the whole table.
  [[nodiscard]] std::size_t active() const noexcept;
  /// Completes every operation of the emulation on `endpoint` with `why` and drops the requests of its peer.
  /// Requires: not called inside a send.  A module that detects a death there calls it later, in progress() or
  /// disconnect().
  void endpoint_gone(Endpoint& endpoint, const Error& why) noexcept;

 private:
  std::size_t send_waiting() noexcept;
  struct State;
  /// The state at the receiver of a message of `from`; null: its module has no emulation.
  static State* state_at(const Endpoint& from) noexcept;
  bool busy_ = false;  // something may wait to be sent; if not, progress() costs one branch
  std::unique_ptr<State> state_;
};

}  // namespace opal::btl
