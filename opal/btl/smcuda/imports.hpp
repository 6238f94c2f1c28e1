// SPDX-License-Identifier: Apache-2.0
// opal/btl/smcuda/imports.hpp — what one peer has sent descriptors of: memory of its virtual-memory functions and of
// its pools (gpu/sharing/imported_memory.hpp).  A descriptor is asked for when a transfer meets memory that wants one;
// until it is here that memory is staged.  Bounded: what was used longest ago goes, and may be asked for again. It is
// what opens the peer's memory, of whatever kind, for the caches (rcache::Rgpusm). Owned by its Peer.  Threads: as the
// module.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "opal/btl/shared/registrations/registration_table.hpp"
#include "opal/gpu/sharing/imported_memory.hpp"
#include "opal/rcache/rgpusm.hpp"

namespace opal::btl::smcuda {

class Imports final : public rcache::GpuOpener {
 public:
  static constexpr std::size_t kMost = 64;
  static constexpr unsigned kRefusals = 8;  ///< one after the other, until nothing is asked for any more

  /// Whether open() has what it needs.
  [[nodiscard]] bool can_open(const gpu::MemoryHandle& handle) const noexcept;

  /// Whether a descriptor should be asked for now: not while one is under way, nor of a peer that always refuses.
  [[nodiscard]] bool should_ask(const gpu::MemoryHandle& handle) const noexcept;
  /// It was asked for, by this registration.
  void asked(const SoftwareHandle& region, const gpu::MemoryHandle& handle);
  /// The answer; without a file: refused.  One that nobody waits for is dropped.
  void take(const SoftwareHandle& region, gpu::Descriptor descriptor) noexcept;

  /// [base, +size) of the peer's memory was freed.
  void freed(std::uint64_t base, std::uint64_t size) noexcept;

  /// Forgets every descriptor that is here; nothing of it may be mapped.
  void release() noexcept;

  Result<std::uintptr_t> open(const gpu::MemoryHandle& handle, gpu::ContextHandle context) noexcept override;
  void close(const gpu::MemoryHandle& handle, std::uintptr_t address, gpu::ContextHandle context) noexcept override;

 private:
  struct Entry {
    gpu::MemoryHandle handle;
    SoftwareHandle region;                        // that asked
    std::optional<gpu::ImportedMemory> memory{};  // none: the answer is under way
    std::uint64_t used = 0;
  };
  [[nodiscard]] const Entry* find(const gpu::MemoryHandle& handle) const noexcept;

  std::vector<Entry> entries_;  // few, and looked at once per transfer
  std::uint64_t uses_ = 0;
  unsigned refusals_ = 0;
};

}  // namespace opal::btl::smcuda
