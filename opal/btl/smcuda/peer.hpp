// SPDX-License-Identifier: Apache-2.0
// opal/btl/smcuda/peer.hpp — the state of one peer in a smcuda module, from the first GPU buffer or request on.
// Owned by its module, the only user.  Threads: as the module.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "opal/btl/smcuda/imports.hpp"
#include "opal/btl/smcuda/ipc_state.hpp"
#include "opal/gpu/context.hpp"
#include "opal/rcache/rgpusm.hpp"

namespace opal::btl::smcuda {

/// The same limits, but nothing stays mapped after its last use.
inline rcache::Config unpinned(rcache::Config config) noexcept {
  config.leave_pinned = false;
  return config;
}

/// The mappings of the peer's memory in one CUDA context of this process.  Borrows the opener.
struct Window final : private rcache::GpuOpener {
  Window(gpu::WorkContext work, std::uint64_t id, const rcache::Config& config, rcache::GpuOpener& opener)
      : id(id),
        work(std::move(work)),
        opener(opener),
        kept(this->work.handle(), config, *this),
        passing(this->work.handle(), unpinned(config), *this) {}

  /// The cache for this memory.  An allocation of a pool must be unmapped before its owner frees it
  /// (cuMemPoolImportPointer), but the free is not reported in time.  So it is mapped only while it is in use.
  [[nodiscard]] rcache::Rgpusm& cache_of(const gpu::MemoryHandle& memory) noexcept {
    return memory.memory_kind() == gpu::MemoryKind::pooled ? passing : kept;
  }

  std::uint64_t id;  ///< of the context; unlike a context handle it is never used again
  gpu::WorkContext work;
  rcache::GpuOpener& opener;
  rcache::Rgpusm kept;     ///< mappings as configured
  rcache::Rgpusm passing;  ///< mappings that end with their use

 private:
  Result<std::uintptr_t> open(const gpu::MemoryHandle& handle, gpu::ContextHandle context) noexcept override {
    return opener.open(handle, context);
  }
  /// The program may have destroyed the context since.
  void close(const gpu::MemoryHandle& handle, std::uintptr_t address, gpu::ContextHandle context) noexcept override {
    opener.close(handle, address, gpu::context_alive(id) ? context : nullptr);
  }
};

/// Not movable: windows refer to `imports`.
struct Peer {
  Peer() = default;
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  Ipc ipc;
  bool refused_access = false;  ///< mapping is not tried: it was not supported in spite of `ipc`
  std::size_t copying = 0;      ///< copies in flight from and to the peer's memory
  Imports imports;
  std::vector<std::unique_ptr<Window>> windows;
  rcache::Statistics dropped;  ///< of windows whose contexts were destroyed

  /// Makes or finds the Window of the context `work`; it lives as long as the context and the Peer.
  /// Errors: those of gpu::context_id(), no_memory.
  Result<Window*> window(gpu::WorkContext work, const rcache::Config& config) noexcept;

 private:
  void drop_windows_of_destroyed_contexts() noexcept;
};

}  // namespace opal::btl::smcuda
