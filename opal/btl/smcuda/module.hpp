// SPDX-License-Identifier: Apache-2.0
// opal/btl/smcuda/module.hpp — sm, and put and get of GPU memory from device to device by CUDA IPC.
// It derives from sm::Module, which does messages, put and get between host memory, connections and waiting.  It adds:
//   * handles of GPU memory
//   * put and get of GPU memory: the device copies over a mapping of the peer's memory
//   * the protocol by which two processes find out, at the first GPU buffer, whether they can do so (ipc_state.hpp)
// Otherwise a put or get of local GPU memory fails with not_supported, and the caller stages it (am::StagedTransfers).
// If only the peer's memory is a GPU's, the peer copies it (by messages).  docs/design/smcuda.md.
// Owns: one Peer per endpoint that had a GPU transfer, streams and events (gpu::Copier).  Threads: as btl::Module.
#pragma once
#include <deque>
#include <memory>
#include <unordered_map>

#include "opal/btl/sm/module.hpp"
#include "opal/btl/smcuda/config.hpp"
#include "opal/btl/smcuda/peer.hpp"
#include "opal/btl/smcuda/wire.hpp"
#include "opal/gpu/copies/copier.hpp"

namespace opal::btl::smcuda {

/// The variables of a module.
struct Settings {
  Config own;
  sm::Config host;  ///< of the base, sm::Module
  gpu::Config gpu;
  rcache::Config cache;  ///< of the mappings of peers' GPU memory (peer.hpp)
};

class OPAL_EXPORT Module final : public sm::Module {
 public:
  /// Errors: those of sm::Module::open().
  static Result<std::unique_ptr<Module>> open(const ModuleParameters& parameters, const Settings& settings);
  ~Module() override;

  Fragment prepare_src(btl::Endpoint& to, ByteSpan header, ByteSpan payload) noexcept override;

  Result<MemoryHandle> register_memory(void* base, std::uint64_t size, Rights rights) override;
  Result<void> deregister_memory(const MemoryHandle& handle) override;
  void invalidate_memory(const MemoryHandle& handle) noexcept override;

  Post transfer(RdmaOperation::Kind kind, btl::Endpoint& to, std::byte* here, const MemoryHandle* local,
                std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
                Completion& completion) noexcept override;
  Post atomic(btl::Endpoint& to, const AtomicRequest& request, Completion& completion) noexcept override;

  bool arm() noexcept override;

  Result<void> release_remote_memory() noexcept override;
  [[nodiscard]] rcache::Statistics remote_memory_statistics() const noexcept override;

  /// For tests and tools.
  [[nodiscard]] Ipc ipc_of(const btl::Endpoint& peer) const noexcept;
  /// Copies in flight.
  [[nodiscard]] std::size_t copying() const noexcept { return operations().active(this); }

 private:
  using Kind = RdmaOperation::Kind;

  /// A copy in flight.
  struct Copying {
    Module* module = nullptr;
    RdmaOperation* operation = nullptr;
    Peer* peer = nullptr;
    rcache::RemoteGpuMemory mapped;
  };

  Module(const ModuleParameters& parameters, const Settings& settings, Parts parts);
  Peer& peer_of(btl::Endpoint& endpoint);

  // ipc.cpp.  Requests and answers wait in the emulation under back-pressure.
  Result<void> take_tags();
  void note_gpu_buffer(btl::Endpoint& to, const void* buffer) noexcept;
  [[nodiscard]] Capability capability_for(const gpu::DeviceId& theirs) const noexcept;
  void settled(btl::Endpoint& to, const Peer& peer, IpcState before) noexcept;
  void on_request(Delivery& delivery) noexcept;
  void on_answer(Delivery& delivery) noexcept;

  // descriptors.cpp
  void ask_for_file(btl::Endpoint& to, Peer& peer, const SoftwareHandle& region,
                    const gpu::MemoryHandle& memory) noexcept;
  void on_ask_file(Delivery& delivery) noexcept;
  [[nodiscard]] Result<gpu::Descriptor> descriptor_of(const SoftwareHandle& region) const noexcept;
  void on_file(btl::Endpoint& from, sm::ReceivedHello& answer) noexcept override;
  static std::uint64_t queue_of(const Peer& peer) noexcept;

  // one_sided.cpp
  Post transfer_gpu(Kind kind, btl::Endpoint& to, std::byte* here, std::uint64_t remote_address,
                    const MemoryHandle& remote, std::uint64_t size, Completion& completion) noexcept;
  Result<Post> copy_by_ipc(Kind kind, btl::Endpoint& to, std::byte* here, std::uint64_t remote_address,
                           const wire::GpuHandle& target, std::uint64_t size, Completion& completion) noexcept;
  static void copied(void* user, const Result<void>& result) noexcept;

  bool attend(std::size_t& count) noexcept override;
  void abandon(btl::Endpoint& endpoint, const Error& why) noexcept override;

  const Settings settings_;
  std::unordered_map<btl::Endpoint*, Peer> peers_;
  std::deque<Copying> copyings_;  // by RdmaOperation::slot; never shrinks, so elements do not move
  std::unique_ptr<gpu::Copier> copier_;
};

}  // namespace opal::btl::smcuda
