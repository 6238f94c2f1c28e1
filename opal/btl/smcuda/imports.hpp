// SPDX-License-Identifier: Apache-2.0
// opal/btl/smcuda/imports.hpp — opens the GPU memory of one peer for the caches (rcache::Rgpusm).  Memory of the
// virtual-memory functions and of pools needs a descriptor from the peer (gpu/sharing/remote_memory.hpp).  The first
// transfer of such memory requests it; until it arrives the memory is staged.
// Owns the imported descriptors, at most kMost; the least recently used is dropped and may be requested again.
// Owned by its Peer.  Threads: as the module.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "opal/btl/shared/registrations/registration_table.hpp"
#include "opal/gpu/sharing/remote_memory.hpp"
#include "opal/rcache/rgpusm.hpp"

namespace opal::btl::smcuda {

class Imports final : public rcache::GpuOpener {
 public:
  static constexpr std::size_t kMost = 64;
  static constexpr unsigned kRefusals = 8;  ///< successive refusals after which nothing more is requested

  /// True when the memory needs no descriptor, or its descriptor is here.
  [[nodiscard]] bool can_open(const gpu::MemoryHandle& handle) noexcept;

  /// True when the caller should request the descriptor: it is neither here nor requested, and the peer has not refused
  /// kRefusals times.
  [[nodiscard]] bool should_ask(const gpu::MemoryHandle& handle) noexcept;
  /// Notes that the descriptor of `handle` was requested by the peer's registration `region`.
  void asked(const SoftwareHandle& region, const gpu::MemoryHandle& handle);
  /// Takes the answer to the request of `region`; without a file: refused.  Drops an answer without a request.
  void take(const SoftwareHandle& region, gpu::Descriptor descriptor) noexcept;

  /// Drops all descriptors.  Requires: none of that memory is mapped.
  void release() noexcept;

  Result<std::uintptr_t> open(const gpu::MemoryHandle& handle, gpu::ContextHandle context) noexcept override;
  void close(const gpu::MemoryHandle& handle, std::uintptr_t address, gpu::ContextHandle context) noexcept override;

 private:
  struct Entry {
    gpu::MemoryHandle handle;
    SoftwareHandle region;                          // that the request has named
    std::unique_ptr<gpu::ImportedMemory> memory{};  // null: no answer yet
    std::uint64_t used = 0;                         // value of uses_ at the last use
  };
  /// The import of this allocation, or the request for it; null: neither.
  [[nodiscard]] Entry* find(const gpu::MemoryHandle& handle) noexcept;

  std::vector<Entry> entries_;  // few, and searched once per transfer
  std::uint64_t uses_ = 0;
  unsigned refusals_ = 0;  // since the last descriptor
};

}  // namespace opal::btl::smcuda
