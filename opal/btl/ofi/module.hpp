// SPDX-License-Identifier: Apache-2.0
// opal/btl/ofi/module.hpp — one domain of a libfabric provider, with reliable unconnected endpoints (FI_EP_RDM).  One
// endpoint carries the messages of all peers; a second one, the one-sided endpoint, the puts and gets of this process.
// Credits bound the messages that a peer has in flight.  Reasons: docs/design/ofi.md.  If two sides connect to each
// other at once, the attempt of the side with the lower PeerId remains. The observer gets peer_gone with errno 0 for a
// disconnect, and an error with an errno for a failure, as with tcp. Threads: as btl::Module.
#pragma once
#include <array>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "opal/btl/ofi/config.hpp"
#include "opal/btl/ofi/connections/address.hpp"
#include "opal/btl/ofi/device/address_book.hpp"
#include "opal/btl/ofi/device/device.hpp"
#include "opal/btl/ofi/endpoint.hpp"
#include "opal/btl/ofi/memory/memory.hpp"
#include "opal/btl/ofi/messages/receive_buffers.hpp"
#include "opal/btl/ofi/messages/send_buffers.hpp"
#include "opal/btl/ofi/one_sided_endpoint.hpp"
#include "opal/btl/shared/connected_transport.hpp"
#include "opal/btl/shared/pipelined_transfers.hpp"
#include "opal/btl/shared/waiting.hpp"

namespace opal::btl::ofi {

class OPAL_EXPORT Module final : public ConnectedTransport<Endpoint> {
 public:
  /// Messages up to this size, with their frame, are copied by fi_inject(); less if the provider allows less.
  static constexpr std::size_t kMostInline = 256;

  /// Errors: unreachable (no such provider, with the reason), not_supported, limit_reached, os.
  static Result<std::unique_ptr<Module>> open(const ModuleParameters& parameters, const Config& config);
  /// Waits at most kCloseTimeout for the completion of posted messages.
  ~Module() override;

  [[nodiscard]] ByteSpan address() const noexcept override { return address_bytes_; }
  Result<btl::Endpoint*> connect(const PeerId& peer, ByteSpan address) override;

  Post send_inline(btl::Endpoint& to, Tag tag, ByteSpan header, ByteSpan payload) noexcept override;
  Fragment alloc(btl::Endpoint& to, std::size_t size) noexcept override;
  Post send(Fragment& fragment, Tag tag) noexcept override;
  void free(Fragment& fragment) noexcept override;

  Result<MemoryHandle> register_memory(void* base, std::uint64_t size, Rights rights) override;
  Result<void> deregister_memory(const MemoryHandle& handle) override;
  void invalidate_memory(const MemoryHandle& handle) noexcept override;
  void invalidate_memory_part(const MemoryHandle& handle, memory::Range gone) noexcept override;
  Post transfer(OperationKind kind, btl::Endpoint& to, std::byte* here, const MemoryHandle* local,
                std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
                Completion& completion) noexcept override;
  Post atomic(btl::Endpoint& to, const AtomicRequest& request, Completion& completion) noexcept override;
  Post flush(btl::Endpoint* to, Completion& completion) noexcept override;
  [[nodiscard]] PipelinedTransfers* transfers() noexcept override { return native_ ? &pipelined_ : nullptr; }

  [[nodiscard]] int wait_fd() const noexcept override { return waiting_.fd(); }

  // For endpoints and the one-sided endpoint.
  [[nodiscard]] const Config& config() const noexcept { return config_; }
  [[nodiscard]] const Device& device() const noexcept { return device_; }
  [[nodiscard]] fid_ep& endpoint() const noexcept { return *messages_.endpoint; }
  [[nodiscard]] const Address& own_address() const noexcept { return address_; }
  [[nodiscard]] const Secret& key() const noexcept { return key_; }
  [[nodiscard]] SendBuffers& send_buffers() noexcept { return send_buffers_; }
  [[nodiscard]] Waiting& waiting() noexcept { return waiting_; }
  [[nodiscard]] Memory& memory() noexcept { return memory_; }
  [[nodiscard]] std::size_t inline_size() const noexcept { return inline_size_; }
  /// True if put and get use the provider's operations.
  [[nodiscard]] bool native() const noexcept { return native_; }
  [[nodiscard]] static std::uint64_t time_after(std::chrono::milliseconds time) noexcept;
  void deliver(Endpoint& from, Tag tag, ByteSpan data) noexcept;
  void on_confirmed(Endpoint& endpoint) noexcept;
  void on_broken() noexcept { some_broken_ = true; }
  void on_ended(Endpoint& endpoint) noexcept;
  /// Ends what an endpoint has from the module: its slot, its address, its process, and `pending` send buffers.
  void release(std::uint32_t slot, const std::vector<std::byte>& name, Fd& process, std::uint32_t pending) noexcept;
  /// Makes the next progress() call Endpoint::resume() of all endpoints, and wakes a sleeper for that.
  void on_stalled() noexcept { some_stalled_ = true; }
  /// Counts a message that belongs to no peer; logs the first one.
  void drop_stray(const char* what) noexcept;
  [[nodiscard]] Transfer& transfer_of(const RdmaOperation& operation) noexcept { return transfers_[operation.slot]; }
  void finish(RdmaOperation& operation, const Error& why) noexcept;
  /// The provider has refused the operation: messages do it, and their target checks it precisely.
  void emulate(RdmaOperation& operation) noexcept;

 private:
  std::size_t receive(std::size_t budget) noexcept override;
  bool arm_wake_up() noexcept override;
  bool leave(Endpoint& endpoint, const Error& why) noexcept override { return endpoint.leave(why); }
  [[nodiscard]] bool has_left(const Endpoint& endpoint) const noexcept override { return endpoint.left(); }
  void end_operations(Endpoint& endpoint, const Error& why) noexcept override;
  void on_vacant(const PeerId& peer) noexcept override;
  void close_in_child() noexcept override;
  void abandon() noexcept;
  Module(const ModuleParameters& parameters, const Config& config, const Attributes& attributes, bool native,
         Device device, FabricEndpoint messages, ReceiveBuffers receive_buffers, Waiting waiting, Address address);

  // peers.cpp
  Result<std::unique_ptr<Endpoint>> make_endpoint(const PeerId& peer, const Address& address);
  void on_hello(ByteSpan payload) noexcept;

  // progress.cpp
  bool poll_messages() noexcept;
  void on_completion(const fi_cq_data_entry& entry) noexcept;
  void on_failure(fid_cq* queue) noexcept;
  void on_sent(SendBuffer& buffer, const Error& why) noexcept;
  void on_message(ByteSpan message) noexcept;
  void check_processes() noexcept;
  void look_at_clock() noexcept;
  [[nodiscard]] std::uint64_t next_time() const noexcept;

  // one_sided.cpp
  bool emulate_now(RdmaOperation& operation) noexcept;

  const Config config_;
  Device device_;
  AddressBook book_;
  SendBuffers send_buffers_;
  ReceiveBuffers receive_buffers_;
  Waiting waiting_;
  const Address address_;
  const std::vector<std::byte> address_bytes_;
  const Secret key_;
  const std::size_t inline_size_;
  const bool native_;
  FabricEndpoint messages_;  // closed before its buffers
  Memory memory_;
  PipelinedTransfers pipelined_;         // of whole address spaces
  std::deque<Transfer> transfers_;       // by the operation's slot
  OneSidedEndpoint one_sided_;           // closed before the memory that it uses
  std::vector<RdmaOperation*> refused_;  // to be done by messages, which have no room
  std::vector<Endpoint*> slots_;         // by Frame::slot; null: free
  std::vector<std::uint32_t> free_slots_;
  std::unordered_map<PeerId, std::vector<std::byte>> waiting_hellos_;  // until on_vacant()
  bool some_broken_ = false;
  bool some_stalled_ = false;
  std::uint32_t quiet_ = 0;  // consecutive rounds without a completion
  std::uint32_t busy_rounds_ = 0;
  std::uint64_t look_ns_ = 0;            // when to look at the peers' processes again
  std::uint64_t strays_ = 0;             // messages that belong to no peer
  std::size_t turns_ = 0;                // handlers that this progress() may still run
  std::size_t events_ = 0;               // events of this progress()
  std::vector<fi_cq_data_entry> early_;  // completions that arm_wake_up() polled; the next progress() handles them
};

}  // namespace opal::btl::ofi
