// SPDX-License-Identifier: Apache-2.0
// opal/mpool/cuda_host_pool.hpp — host memory that a GPU's driver knows: a heap pool whose every block is pinned.
// Owns: the pages and their registrations.  Threads: safe from any thread.
#pragma once
#include <cstddef>
#include <map>
#include <mutex>

#include "opal/core/bytes.hpp"
#include "opal/gpu/copies/pinned.hpp"
#include "opal/mpool/mapped_pools.hpp"

namespace opal::mpool {

class CudaHostPool final : public Pool {
 public:
  /// Errors besides those of a heap pool: not_supported (no driver, or the program has no CUDA context yet).
  Result<std::byte*> allocate(std::size_t size, std::size_t alignment) noexcept override;
  Result<void> deallocate(std::byte* address) noexcept override;
  [[nodiscard]] allocator::Usage usage() const noexcept override { return pages_.usage(); }

  [[nodiscard]] const char* name() const noexcept override { return "cuda_host"; }
  [[nodiscard]] std::size_t page_size() const noexcept override { return pages_.page_size(); }
  [[nodiscard]] PageKind pages() const noexcept override { return pages_.pages(); }

 private:
  Result<void> pin(MutableBytes block) noexcept;

  HeapPool pages_;
  std::mutex mutex_;
  std::map<std::byte*, gpu::Pinned> pinned_;  // undone before the pages go
};

}  // namespace opal::mpool
