// SPDX-License-Identifier: Apache-2.0
// opal/btl/ofi/module.hpp — one domain of a libfabric provider, with reliable unconnected endpoints (FI_EP_RDM).  One
// endpoint carries the messages of all peers; a second one, the one-sided endpoint, the puts and gets of this process.
// Handshake and credits: rdm/transport.hpp.  Reasons: docs/design/ofi.md.  Threads: as btl::Module.
#pragma once
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "opal/btl/ofi/config.hpp"
#include "opal/btl/ofi/device/device.hpp"
#include "opal/btl/ofi/memory/memory.hpp"
#include "opal/btl/ofi/messages/receive_buffers.hpp"
#include "opal/btl/ofi/one_sided_endpoint.hpp"
#include "opal/btl/shared/rdm/transport.hpp"

namespace opal::btl::ofi {

inline constexpr std::uint32_t kMagic = 0x6f66696f;  ///< "oifo": of this transport's addresses

struct SendBuffer : Operation, rdm::SendBuffer {
  explicit SendBuffer(void* memory) noexcept : Operation(Kind::send), descriptor(memory) {}
  void* descriptor;  ///< of its registration; null: none is needed
};

class OPAL_EXPORT Module final : public rdm::Transport {
 public:
  /// Errors: unreachable (no such provider, with the reason), not_supported, limit_reached, os.
  static Result<std::unique_ptr<Module>> open(const ModuleParameters& parameters, const Config& config);
  /// Waits at most kCloseTimeout for the completion of posted messages.
  ~Module() override;

  // For the one-sided endpoint.
  [[nodiscard]] const Config& config() const noexcept { return config_; }
  [[nodiscard]] const Device& device() const noexcept { return device_; }
  [[nodiscard]] Memory& memory() noexcept override { return memory_; }

  [[nodiscard]] const char* log_name() const noexcept override { return "btl.ofi"; }
  [[nodiscard]] std::string describe_network() const override;
  Result<std::uint64_t> reach(const rdm::Address& address) override;
  bool transmit(rdm::Endpoint& to, rdm::SendBuffer& buffer, std::size_t size) noexcept override;
  bool transmit_inline(rdm::Endpoint& to, ByteSpan message) noexcept override;

 private:
  Module(const ModuleParameters& parameters, const Config& config, Parts parts, Device device, FabricEndpoint messages,
         ReceiveBuffers receive_buffers);
  bool poll_network() noexcept override;
  bool arm_network() noexcept override;
  [[nodiscard]] bool must_poll() const noexcept override;
  Post post_piece(RdmaOperation& operation) noexcept override { return one_sided_.post(operation); }
  void drop_pieces(const rdm::Endpoint& endpoint) noexcept override { one_sided_.drop(endpoint); }

  // progress.cpp
  bool was_sent(rdm::Endpoint& to, long result) noexcept;
  bool poll_messages() noexcept;
  std::size_t poll_queue(fid_cq* queue, std::size_t most) noexcept;
  void on_completion(const fi_cq_data_entry& entry, const Error& why) noexcept;
  void on_failure(fid_cq* queue) noexcept;

  const Config config_;
  Device device_;
  /// Peers in the address vector, by their names in the network.  They stay: a removal closes the connections of the
  /// provider, which may carry the next Hello of that peer.
  std::unordered_map<std::string, fi_addr_t> reached_;
  std::vector<MemoryRegion> regions_;  // of buffers_
  std::deque<SendBuffer> buffers_;     // stable addresses
  ReceiveBuffers receive_buffers_;
  FabricEndpoint messages_;  // closed before its buffers
  Memory memory_;
  OneSidedEndpoint one_sided_;           // closed before the memory that it uses
  std::vector<fi_cq_data_entry> early_;  // completions that arm_network() polled; the next progress() handles them
};

}  // namespace opal::btl::ofi
