// SPDX-License-Identifier: Apache-2.0
// opal/btl/sim/module.hpp — the sim transport: one simulated device of a Fabric and its software.
// progress() delivers active messages.  The devices alone execute puts, gets and atomics, also while the target's
// software sleeps.  docs/design/sim.md says what is modelled.
// Owns its endpoints, shares the fabric, and unplugs its node at its end.  Threads: as btl::Module.
#pragma once
#include <memory>
#include <string>
#include <unordered_map>

#include "opal/btl/shared/device_transport.hpp"
#include "opal/btl/sim/config.hpp"
#include "opal/btl/sim/fabric.hpp"
#include "opal/btl/sim/memory.hpp"

namespace opal::btl::sim {

class Module;

/// One peer on the simulated fabric.  The fabric owns both links.
class OPAL_EXPORT Endpoint final : public btl::Endpoint {
 public:
  using Buffer = std::byte;  ///< of MessageTransport::alloc()

  Endpoint(Module& module, const PeerId& peer, NodeId node) noexcept;
  [[nodiscard]] bool one_sided() const noexcept override { return true; }
  [[nodiscard]] std::string describe() const override { return "simulated device " + std::to_string(node_); }
  Post send_inline(Tag tag, ByteSpan header, ByteSpan payload) noexcept;
  Post send_buffer(Tag tag, Buffer& buffer, std::size_t size) noexcept;

 private:
  friend class Module;
  Module& sim_;
  const NodeId node_;
  Link* const out_;     // to the peer
  Link* in_ = nullptr;  // from the peer; null until its connect or accept has arrived
};

class OPAL_EXPORT Module final : public DeviceTransport<Endpoint, DeviceTransfer> {
 public:
  /// Opens a device on the fabric named config.fabric (Fabric::attach).
  static Result<std::unique_ptr<Module>> open(const ModuleParameters& parameters, const Config& config);
  ~Module() override;

  [[nodiscard]] Fabric& fabric() const noexcept { return *fabric_; }
  [[nodiscard]] NodeId node() const noexcept { return node_.id; }
  [[nodiscard]] Memory& memory() noexcept override { return memory_; }

  [[nodiscard]] ByteSpan address() const noexcept override { return bytes_of(address_); }
  Result<btl::Endpoint*> connect(const PeerId& peer, ByteSpan address) override;
  Result<MemoryHandle> register_memory(void* base, std::uint64_t size, Rights rights) override;
  [[nodiscard]] int wait_fd() const noexcept override { return fabric_->doorbell(node_); }

 private:
  friend class Endpoint;

  struct Address {
    std::uint64_t magic;
    std::uint64_t fabric;
    std::uint64_t node;
  };
  static constexpr std::uint64_t kMagic = 0x314d49534c41504fU;  // "OPALSIM1"

  Module(const ModuleParameters& parameters, const Config& config, std::shared_ptr<Fabric> fabric);

  std::size_t receive(std::size_t budget) noexcept override;
  bool arm_wake_up() noexcept override;
  bool leave(Endpoint& endpoint, const Error& why) noexcept override;
  void close_in_child() noexcept override {}  // the fabric is in this process
  [[nodiscard]] Way way_to(Endpoint& /*endpoint*/) noexcept override { return Way::device; }
  [[nodiscard]] bool has_atomic(AtomicOp /*op*/, AtomicType /*type*/) const noexcept override { return true; }
  void start(RdmaOperation& operation) noexcept override;
  void finish(RdmaOperation& operation, const Error& why) noexcept override { operations().finish(operation, why); }
  void drop(Endpoint& /*endpoint*/) noexcept override {}  // its links are closed

  void pair(Endpoint& endpoint, Link& incoming) noexcept;
  void send_control(Endpoint& to, Packet::Kind kind, ByteSpan payload) noexcept;
  /// False: the packet is to be handled again later.
  [[nodiscard]] bool handle(Packet& packet) noexcept;
  [[nodiscard]] bool on_connect(Packet& packet) noexcept;
  void on_accept(Packet& packet) noexcept;
  void on_message(Packet& packet) noexcept;
  void on_response(Packet& packet) noexcept;
  void on_failure(Packet& packet) noexcept;
  void die(Endpoint* endpoint, const Error& why) noexcept;

  const std::shared_ptr<Fabric> fabric_;
  Node& node_;
  const Address address_;
  Memory memory_;
  std::unordered_map<NodeId, std::uint64_t> newest_;  // by node: highest id of a link by which it has connected
  Packet* waiting_ = nullptr;  // connect of a peer whose earlier endpoint is not reported yet; later packets wait too
};

}  // namespace opal::btl::sim
