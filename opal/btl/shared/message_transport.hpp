// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/message_transport.hpp — the base of the transports.  A transport implements connections, inline
// sends, progress and waiting; this class implements the rest of btl::Module over them:
//
// * put, get and atomic by active messages (rdma_emulation.hpp).  A transport that has them natively overrides
//   transfer() and atomic().
// * flush, over the module's table of operations (rdma_operations.hpp).
// * registrations in the Context's RegistrationTable.  A transport with own_handles overrides these functions.
// * fragments in buffers of max_send bytes.
// * checkpoints, by a marker after the last message to each peer (quiescence.cpp).
//
// ConnectedTransport (connected_transport.hpp) adds endpoints, reports and progress.  A transport that derives from
// this class alone (sm) must follow the rules at the head of that file.  Threads: as btl::Module.
#pragma once
#include <cstddef>
#include <memory>

#include "opal/btl/module.hpp"
#include "opal/btl/shared/pipelined_transfers.hpp"
#include "opal/btl/shared/rdma_emulation.hpp"
#include "opal/btl/shared/rdma_operations.hpp"
#include "opal/btl/shared/registrations/registration_table.hpp"
#include "opal/core/export.hpp"

namespace opal::btl {

class OPAL_EXPORT MessageTransport : public Module {
 public:
  ~MessageTransport() override;

  Fragment alloc(Endpoint& to, std::size_t size) noexcept override;
  Post send(Fragment& fragment, Tag tag) noexcept override;
  void free(Fragment& fragment) noexcept override;
  Fragment prepare_src(Endpoint& to, ByteSpan header, ByteSpan payload) noexcept override;

  Result<MemoryHandle> register_memory(void* base, std::uint64_t size, Rights rights) override;
  Result<void> deregister_memory(const MemoryHandle& handle) override;
  void invalidate_memory(const MemoryHandle& handle) noexcept override;
  void invalidate_memory_part(const MemoryHandle& handle, memory::Range gone) noexcept override;

  Post transfer(RdmaOperation::Kind kind, Endpoint& to, std::byte* here, const MemoryHandle* local,
                std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
                Completion& completion) noexcept override;
  Post atomic(Endpoint& to, const AtomicRequest& request, Completion& completion) noexcept override;
  Post flush(Endpoint* to, Completion& completion) noexcept override;
  [[nodiscard]] PipelinedTransfers* transfers() noexcept final {
    return attributes().own_handles ? &pipelined_ : nullptr;
  }

  void quiesce(std::uint64_t round) noexcept final;
  [[nodiscard]] bool quiet() noexcept final;
  Result<void> checkpoint() noexcept final;
  void resume() noexcept final;
  /// Handler of the peers' checkpoint markers; RdmaEmulation::install() adds it to a Context's table.
  static void on_marker(void* object, Delivery& delivery) noexcept;

 protected:
  MessageTransport(const ModuleParameters& parameters, const Attributes& attributes);
  [[nodiscard]] RdmaEmulation& emulation() noexcept { return emulation_; }
  /// Used by transports with own_handles only.
  [[nodiscard]] PipelinedTransfers& pipelined() noexcept { return pipelined_; }
  /// False when a post of a `size`-byte message to `to` must fail: the endpoint is dead, or `size` exceeds max_send.
  /// to.error() then says which.
  [[nodiscard]] bool accepts(Endpoint& to, std::size_t size) const noexcept {
    if (to.dead()) [[unlikely]]
      return false;
    if (size <= attributes().max_send) [[likely]]
      return true;
    to.set_error({Errc::invalid_argument, 0, "message longer than max_send", size});
    return false;
  }
  /// All one-sided operations of the module in flight: those of the emulation and those of the transport itself.
  [[nodiscard]] RdmaOperations& operations() noexcept { return operations_; }
  [[nodiscard]] const RdmaOperations& operations() const noexcept { return operations_; }

  /// The most buffers of alloc().  If all are in use, alloc() returns an empty fragment.
  static constexpr std::size_t kBuffers = 256;
  /// Makes a buffer of alloc() idle; `slot`: Fragment::slot().
  void give_back(void* slot) noexcept {
    idle_buffers_ = std::construct_at(static_cast<IdleBuffer*>(slot), IdleBuffer{idle_buffers_});
  }

 private:
  RdmaEmulation* own_emulation() noexcept final { return &emulation_; }
  /// The start of an idle buffer of alloc(), which links to the next one.  alloc() allocates memory only while no idle
  /// buffer exists.
  struct IdleBuffer {
    IdleBuffer* next;
  };
  struct QuietFlush : Completion {
    bool queued = false;  // the flush of quiet() is in flight
  };

  RdmaOperations operations_;
  RdmaEmulation emulation_;
  PipelinedTransfers pipelined_;
  IdleBuffer* idle_buffers_ = nullptr;
  std::size_t buffers_made_ = 0;  // idle ones and those in use
  bool quiescing_ = false;        // between quiesce() and resume()
  std::uint64_t round_ = 0;       // of the latest checkpoint
  QuietFlush flush_;
};

}  // namespace opal::btl
