// SPDX-License-Identifier: Apache-2.0
// opal/btl/sim/module.hpp — the sim transport: one simulated device of a Fabric and its software.
// progress() delivers active messages.  The devices alone execute puts, gets and atomics, also while the target's
// software sleeps.  docs/design/sim.md says what is modelled.
// Owns its endpoints, shares the fabric, and unplugs its node at its end.  Threads: as btl::Module; registrations from
// any thread.
#pragma once
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "opal/btl/endpoint.hpp"
#include "opal/btl/shared/message_transport.hpp"
#include "opal/btl/sim/config.hpp"
#include "opal/btl/sim/fabric.hpp"
#include "opal/btl/sim/transfer.hpp"
#include "opal/rcache/cache.hpp"

namespace opal::btl::sim {

/// One peer on the simulated fabric.  The fabric owns both links.
class Endpoint final : public btl::Endpoint {
 public:
  Endpoint(btl::Module& module, const PeerId& peer, NodeId node) noexcept : btl::Endpoint(module, peer), node_(node) {}

  [[nodiscard]] bool one_sided() const noexcept override { return true; }
  [[nodiscard]] std::string describe() const override { return "simulated device " + std::to_string(node_); }

 private:
  friend class Module;
  const NodeId node_;
  Link* out_ = nullptr;  // to the peer; set right after construction
  Link* in_ = nullptr;   // from the peer; null until its connect or accept has arrived
};

class OPAL_EXPORT Module final : public MessageTransport {
 public:
  /// Opens a device on the fabric named config.fabric (Fabric::attach).
  static Result<std::unique_ptr<Module>> open(const ModuleParameters& parameters, const Config& config);
  ~Module() override;

  [[nodiscard]] Fabric& fabric() const noexcept { return *fabric_; }
  [[nodiscard]] NodeId node() const noexcept { return node_.id; }
  [[nodiscard]] MemoryUnit& memory() const noexcept { return node_.memory; }

  [[nodiscard]] ByteSpan address() const noexcept override { return bytes_of(address_); }
  Result<btl::Endpoint*> connect(const PeerId& peer, ByteSpan address) override;
  void disconnect(btl::Endpoint& endpoint) noexcept override;

  Post send_inline(btl::Endpoint& to, Tag tag, ByteSpan header, ByteSpan payload) noexcept override;

  Result<MemoryHandle> register_memory(void* base, std::uint64_t size, Rights rights) override;
  Result<void> deregister_memory(const MemoryHandle& handle) override;
  void invalidate_memory(const MemoryHandle& handle) noexcept override;
  Post atomic(btl::Endpoint& to, const AtomicRequest& request, Completion& completion) noexcept override;

  std::size_t progress(std::size_t budget) noexcept override;
  [[nodiscard]] int wait_fd() const noexcept override { return fabric_->doorbell(node_); }
  bool arm() noexcept override;

 private:
  Post transfer(RdmaOperation::Kind kind, btl::Endpoint& to, std::byte* local, const MemoryHandle* local_handle,
                std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
                Completion& completion) noexcept override;
  // one_sided.cpp.  Transfers up to kInline bytes are in the packet.  A larger one needs its local memory registered,
  // as with a real device: by the caller's handle, else in the registration cache, else for this operation alone.
  /// The registration of the local memory of one operation.
  struct Local {
    rcache::Lease lease;      // from the registration cache
    MemoryHandle handle;      // valid if `registered`
    bool registered = false;  // for this operation alone
  };
  /// Returns the key of registered local memory: of `given`, or of a registration that `local` then holds.
  Result<Key> hold(Local& local, const MemoryHandle* given, std::byte* bytes, std::uint64_t size) noexcept;
  void release(Local& local) noexcept;
  /// Sends a request packet with `room` bytes after the Transfer, which begin with `inline_bytes`.
  void post(Endpoint& to, const Transfer& transfer, ByteSpan inline_bytes, std::size_t room) noexcept;
  /// Ends the operation on `from` that the response names.
  void complete(Endpoint& from, Packet& response) noexcept;
  void end(RdmaOperation& operation, const Error& why) noexcept;
  /// Ends every operation on `endpoint` with `why`.  Requires: its link is closed for transfers.
  void end_operations(Endpoint& endpoint, const Error& why) noexcept;

  struct Address {
    std::uint64_t magic;
    std::uint64_t fabric;
    std::uint64_t node;
  };
  static constexpr std::uint64_t kMagic = 0x314d49534c41504fU;  // "OPALSIM1"

  Module(const ModuleParameters& parameters, const Config& config, std::shared_ptr<Fabric> fabric);
  Endpoint& add(const PeerId& peer, NodeId node);
  [[nodiscard]] Endpoint* find(NodeId node) noexcept;
  void pair(Endpoint& endpoint, Link& incoming) noexcept;
  void send_control(Endpoint& to, Packet::Kind kind, ByteSpan payload) noexcept;

  std::size_t send_waiting() noexcept;
  void handle(Packet& packet) noexcept;
  void on_connect(Packet& packet) noexcept;
  void on_accept(Packet& packet) noexcept;
  void on_message(Packet& packet) noexcept;
  void on_failure(Packet& packet) noexcept;
  void die(Endpoint* endpoint, const Error& why) noexcept;

  const std::shared_ptr<Fabric> fabric_;
  Node& node_;
  const Address address_;
  std::unordered_map<NodeId, std::unique_ptr<Endpoint>> endpoints_;  // the latest endpoint of each node
  std::vector<std::unique_ptr<Endpoint>> replaced_;   // dead, replaced by a new endpoint, not disconnected yet
  std::unordered_map<NodeId, std::uint64_t> newest_;  // by node: highest id of a link by which it has connected
  std::vector<Local> locals_;                         // by the operation's slot
  bool progressing_ = false;
};

}  // namespace opal::btl::sim
