// SPDX-License-Identifier: Apache-2.0
// opal/btl/smcuda/peer.hpp — what a smcuda module keeps of one peer, from the first GPU buffer or request on.
// Owned by its module, which alone uses it.  Threads: as the module.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "opal/btl/smcuda/imports.hpp"
#include "opal/btl/smcuda/ipc_state.hpp"
#include "opal/gpu/context.hpp"
#include "opal/rcache/rgpusm.hpp"

namespace opal::btl::smcuda {

/// The same limits; nothing stays mapped after its last use.
inline rcache::Config unpinned(rcache::Config config) noexcept {
  config.leave_pinned = false;
  return config;
}

/// The peer's memory as it is mapped into one of this process's contexts.
struct Window {
  Window(gpu::WorkContext work, std::uint64_t id, const rcache::Config& config, rcache::GpuOpener& opener)
      : id(id),
        work(std::move(work)),
        kept(this->work.handle(), config, opener),
        passing(this->work.handle(), unpinned(config), opener) {}

  /// The cache for this memory.  An allocation of a pool has to be unmapped before its owner frees it
  /// (cuMemPoolImportPointer), which is not reported to us: it is mapped while it is in use, whatever is configured.
  [[nodiscard]] rcache::Rgpusm& cache_of(const gpu::MemoryHandle& memory) noexcept {
    return memory.memory_kind() == gpu::MemoryKind::pooled ? passing : kept;
  }

  std::uint64_t id;  ///< of the context: a handle may come again
  gpu::WorkContext work;
  rcache::Rgpusm kept;
  rcache::Rgpusm passing;
};

/// Stays where it is: windows refer to what is in it.
struct Peer {
  Peer() = default;
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  Ipc ipc;
  gpu::DeviceId device;         ///< that its request named; while ipc.state is acking
  bool refused_access = false;  ///< a mapping failed for want of access, whatever was agreed
  std::size_t copying = 0;      ///< copies from and to its memory that are in flight
  bool lost = false;            ///< one of them did not end: nothing of it may be unmapped
  bool expects_file = false;    ///< answered to a question that has not gone out yet
  Imports imports;
  std::vector<std::unique_ptr<Window>> windows;

  /// Its memory as `work` sees it.  Errors: those of gpu::context_id(), no_memory.
  Result<Window*> window(gpu::WorkContext work, const rcache::Config& config) noexcept;
};

}  // namespace opal::btl::smcuda
