// SPDX-License-Identifier: Apache-2.0
// opal/rcache/rgpusm.hpp — a cache of GPU allocations of one peer that are mapped into this process ("rgpusm": remote
// GPU shared memory).  Opening a handle costs some 100 us, so mappings are kept.  The receiving process has one cache
// per endpoint.  The key is the address of the allocation in the peer, without rounding.  It uses rcache::Cache, and
// adds that a peer frees its memory without a report.  docs/design/rcache.md "Remote GPU memory".
// (The exporting side, "gpusm", needs no cache: gpu::export_memory() is cheap.)
// Owns: the mappings; all RemoteGpuMemory objects end before it.  Threads: externally synchronised.
#pragma once
#include <cstdint>
#include <utility>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/gpu/sharing/remote_memory.hpp"
#include "opal/rcache/cache.hpp"
#include "opal/rcache/config.hpp"

namespace opal::rcache {

/// Opens and closes handles with the GPU driver.  Tests replace it.
class OPAL_EXPORT GpuOpener {
 public:
  virtual ~GpuOpener() = default;
  virtual Result<std::uintptr_t> open(const gpu::MemoryHandle& handle, gpu::ContextHandle context) noexcept;
  /// `context` is null if it was destroyed.
  virtual void close(const gpu::MemoryHandle& handle, std::uintptr_t address, gpu::ContextHandle context) noexcept;
};

/// A lease of a peer's allocation, which stays mapped as long as this exists.
class RemoteGpuMemory {
 public:
  RemoteGpuMemory() noexcept = default;

  /// The address in this process of [offset, +size) of the peer's allocation, for copies in the cache's context.
  /// Requires: not empty.  Errors: protocol (the range exceeds the size of the allocation that the peer has sent).
  [[nodiscard]] Result<std::uintptr_t> at(std::uint64_t offset, std::uint64_t size) const noexcept {
    if (offset > size_ || size > size_ - offset) {
      return Error{Errc::protocol, 0, "rgpusm: beyond the end of the peer's allocation", offset};
    }
    return address_ + offset;
  }
  explicit operator bool() const noexcept { return static_cast<bool>(lease_); }

 private:
  friend class Rgpusm;
  RemoteGpuMemory(Lease lease, std::uintptr_t address, std::uint64_t size) noexcept
      : lease_(std::move(lease)), address_(address), size_(size) {}
  Lease lease_;
  std::uintptr_t address_ = 0;
  std::uint64_t size_ = 0;
};

class OPAL_EXPORT Rgpusm final : private Device {
 public:
  /// Maps into `context`.  If the program may destroy it before this, `opener` notices (gpu::context_alive()).
  Rgpusm(gpu::ContextHandle context, const Config& config);
  Rgpusm(gpu::ContextHandle context, const Config& config, GpuOpener& opener);

  /// Returns the mapping of the allocation that `handle` names; maps it if it is not mapped yet.
  /// Errors: protocol (empty or wrapping range), busy (the driver has a mapping there of freed memory with a lease: try
  /// again after the end of that lease), limit_reached (size_limit, count_limit or the driver's room, and nothing idle
  /// to unmap), those of gpu::open_memory().  After any of them the caller may use staging.
  Result<RemoteGpuMemory> get(const gpu::MemoryHandle& handle) noexcept;

  /// Unmaps everything that is not in use.
  void flush() noexcept { cache_.flush(); }

  [[nodiscard]] Statistics statistics() const noexcept;
  [[nodiscard]] gpu::ContextHandle context() const noexcept { return context_; }

 private:
  Result<void> register_memory(Registration& registration) noexcept override;
  void deregister_memory(Registration& registration) noexcept override;
  Result<RemoteGpuMemory> open(const gpu::MemoryHandle& handle) noexcept;

  GpuOpener& opener_;
  const gpu::ContextHandle context_;
  const gpu::MemoryHandle* wanted_ = nullptr;  // the argument of the get() in progress
  bool already_mapped_ = false;                // the driver's last error for it was "already mapped"
  std::uint64_t stale_ = 0;                    // hits of cache_ on memory that the peer has freed and replaced
  Cache cache_;                                // last member: its destructor calls the device, which is this object
};

}  // namespace opal::rcache
