// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/rdma_emulation.hpp — put, get and atomics by active messages, for a transport or a peer without
// native ones.
//   put     The initiator sends PutPieces.  Each carries the handle, the range of the whole put and its own place.  The
//           target checks the whole range at each piece, writes the piece, and answers the last one with a Reply.
//   get     The initiator sends a GetRequest.  The target sends GetPieces in order.
//   atomic  The initiator sends an AtomicRequest.  The target answers with a Reply.
// A Reply with an error ends any of them.  The target's answer completes an operation, so a completed put is visible.
// GPU memory of the target passes through pinned host memory, in copies of the driver that serve several messages.
// The operations are in the module's RdmaOperations, whose flush() waits for them.
// Owned by its Module.  Threads: as the module.  Bytes of peers are checked before any use.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "opal/btl/atomic.hpp"
#include "opal/btl/handlers.hpp"
#include "opal/btl/memory_handle.hpp"
#include "opal/btl/module.hpp"
#include "opal/btl/post.hpp"
#include "opal/btl/shared/rdma_operations.hpp"
#include "opal/btl/shared/rdma_wire.hpp"
#include "opal/core/export.hpp"
#include "opal/gpu/copies/pinned.hpp"

namespace opal::btl {

class OPAL_EXPORT RdmaEmulation {
 public:
  RdmaEmulation(Module& module, RdmaOperations& operations) noexcept : module_(module), operations_(operations) {}
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
  /// True when nothing waits to be sent.  While it is false, a module that gets no event for new room in the transport
  /// must not sleep.
  [[nodiscard]] bool idle() const noexcept { return sending_.empty() && gets_.empty() && answers_.empty(); }
  /// For the arm() of a module that gets an event for new room in the transport: sends what it can.  False: the module
  /// must not sleep, since something was sent.
  [[nodiscard]] bool arm() noexcept { return idle() || progress() == 0; }
  /// Sends the short answer of a one-sided operation (Reply, Lent, LentReturn, messages of smcuda): `header`, and
  /// after it `handle`.  Under back-pressure progress() sends it later.  Answers to one peer keep their order.  Drops
  /// it if the endpoint is dead, or with a warning if too many are queued for it.
  void answer(Endpoint& to, Tag tag, ByteSpan header, ByteSpan handle = {}) noexcept;
  /// Answers with a Reply.
  void reply(Endpoint& to, std::uint64_t operation, Errc code, std::uint64_t value = 0) noexcept;
  /// Operations of the emulation in flight.  Cost: a scan of the whole table.
  [[nodiscard]] std::size_t active() const noexcept;
  /// Completes every operation of the emulation on `endpoint` with `why` and drops the requests of its peer.
  /// Requires: not called inside a send.  A module that detects a death there calls it later, in progress() or
  /// disconnect().
  void endpoint_gone(Endpoint& endpoint, const Error& why) noexcept;

 private:
  /// A peer's get whose pieces are being sent.
  struct Serving {
    std::uint64_t operation;
    std::uint64_t base;
    std::uint64_t total;
    std::uint64_t sent;
    bool on_gpu;
    MemoryHandle handle;
  };
  struct Answer {
    Tag tag;
    std::vector<std::byte> bytes;
  };
  /// A copy of the next piece of a get, or of several from GPU memory.  send_inline() must not read the program's
  /// memory, where a fault could occur in the middle of a message.
  struct Staged {
    const Endpoint* to = nullptr;  // null: nothing is staged
    std::uint64_t operation = 0;
    std::uint64_t address = 0;
    std::uint64_t size = 0;
    std::byte* data = nullptr;
    std::vector<std::byte> bytes;  // contains `data` of host memory, at the page offset of the source: fastest to copy
  };
  /// The pieces of a put to GPU memory that have arrived one after the other and are not copied to the GPU yet.
  struct Gathered {
    Endpoint* from = nullptr;  // null: none
    std::uint64_t operation = 0;
    std::uint64_t base = 0;  // of the whole put
    std::uint64_t total = 0;
    std::uint64_t offset = 0;  // of the first byte that was gathered
    std::uint64_t size = 0;
    MemoryHandle handle;
  };
  /// For puts and gets of GPU memory.
  struct Gpu {
    gpu::StagingMemory memory;  // two parts of gpu_window() bytes: for gets, and for puts
    Gathered gathered;
  };

  std::size_t send_waiting() noexcept;
  [[nodiscard]] std::size_t max_send() const noexcept { return module_.attributes().max_send; }
  [[nodiscard]] const RegistrationTable& registrations() const noexcept { return module_.parameters().registrations; }

  // Initiator
  bool send_put_pieces(RdmaOperation& operation) noexcept;
  void finish(RdmaOperation& operation, const Error& why) noexcept;

  // Target
  bool send_get_pieces(Endpoint& to, Serving& serving) noexcept;
  [[nodiscard]] bool is_staged(const Endpoint& to, const Serving& serving, std::uint64_t size) const noexcept;
  Result<void> stage(const Endpoint& to, const Serving& serving, std::uint64_t size) noexcept;
  void gather(Endpoint& from, const wire::PutPiece& piece, const MemoryHandle& handle, ByteSpan data) noexcept;
  void copy_to_gpu(const Gathered& put, ByteSpan data) noexcept;
  void copy_gathered() noexcept;
  /// Bytes of each of the two parts of Gpu::memory.
  [[nodiscard]] std::size_t gpu_window() const noexcept;
  Result<void> make_gpu() noexcept;

  // Handlers
  /// The emulation at the receiver of a message of `from`; null: its module has none.
  static RdmaEmulation* of(const Endpoint& from) noexcept { return from.module().own_emulation(); }
  [[nodiscard]] Place place_put_piece(Endpoint& from, ByteSpan head, std::size_t size) noexcept;
  void on_put_piece(Delivery& delivery) noexcept;
  void on_get_request(Delivery& delivery) noexcept;
  [[nodiscard]] RdmaOperation* get_of(const wire::GetPiece& piece, Endpoint& from) noexcept;
  [[nodiscard]] Place place_get_piece(Endpoint& from, ByteSpan head, std::size_t size) noexcept;
  void on_get_piece(Delivery& delivery) noexcept;
  void on_atomic_request(Delivery& delivery) noexcept;
  void on_reply(Delivery& delivery) noexcept;

  bool busy_ = false;  // something may wait to be sent; if not, progress() costs one branch
  Module& module_;
  RdmaOperations& operations_;                                 // the module's table; `this` is the carrier
  std::vector<RdmaOperation*> sending_;                        // puts with pieces left to send
  std::unordered_map<Endpoint*, std::deque<Serving>> gets_;    // of peers, unfinished; no queue is empty
  std::unordered_map<Endpoint*, std::deque<Answer>> answers_;  // that wait; no queue is empty
  Staged staged_;
  std::unique_ptr<Gpu> gpu_;  // null until the first put or get of GPU memory
};

}  // namespace opal::btl
