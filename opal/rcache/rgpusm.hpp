// SPDX-License-Identifier: Apache-2.0
// opal/rcache/rgpusm.hpp — GPU memory of one peer, mapped here and kept: "rgpusm", remote GPU shared memory.
// Opening a handle costs some 100 us, so that it is kept where it is used: in the receiving process, one cache per
// endpoint, keyed by the address that the memory has in the peer, to the byte.  The engine is rcache::Cache; what is
// added here is that a peer's memory goes away without a word.  docs/design/rcache.md "Remote GPU memory".
// (The local side, "gpusm", keeps nothing: gpu::export_memory() is cheap.)
// Owns: the mappings; leases end before it does.  Threads: externally synchronised, like the transport that owns it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/gpu/sharing/remote_memory.hpp"
#include "opal/rcache/cache.hpp"
#include "opal/rcache/config.hpp"

namespace opal::rcache {

/// What opens handles: the driver, but for tests.
class OPAL_EXPORT GpuOpener {
 public:
  virtual ~GpuOpener() = default;
  virtual Result<std::uintptr_t> open(const gpu::MemoryHandle& handle, gpu::ContextHandle context) noexcept;
  virtual void close(const gpu::MemoryHandle& handle, std::uintptr_t address, gpu::ContextHandle context) noexcept;
};

/// A peer's allocation, mapped here as long as this exists.
class RemoteGpuMemory {
 public:
  RemoteGpuMemory() noexcept = default;

  /// Where [offset, +size) of the peer's allocation begins here; for copies in the cache's context.
  /// Errors: protocol (not all of it is in the allocation, whose size the peer has told).
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
  /// Maps into `context`, which outlives it or takes the mappings with it.
  Rgpusm(gpu::ContextHandle context, const Config& config);
  Rgpusm(gpu::ContextHandle context, const Config& config, GpuOpener& opener);

  /// The allocation that `handle` names, mapped now or before.  Errors: protocol (empty or wrapping range), busy (what
  /// is in the way is in use: after the end of that lease it works), limit_reached (size_limit, count_limit or the
  /// driver's room, and nothing idle to give up), those of gpu::open_memory().  After any of them the transfer can be
  /// staged.
  Result<RemoteGpuMemory> get(const gpu::MemoryHandle& handle) noexcept;

  /// The peer says that [base, +size) of its memory was freed: nothing of it serves any more.
  void freed(std::uint64_t base, std::uint64_t size) noexcept;

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
  const gpu::MemoryHandle* wanted_ = nullptr;  // by the get() that is in flight
  bool in_the_way_ = false;                    // the driver's last answer to it was "already mapped"
  std::uint64_t stale_ = 0;                    // found by address, but of memory that the peer has freed since
  Cache cache_;                                // last: its end calls the device, which is this object
};

}  // namespace opal::rcache
