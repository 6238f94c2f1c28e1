// SPDX-License-Identifier: Apache-2.0
// opal/mpool/mapped_pool.hpp — a pool whose blocks are private anonymous mappings of their own.
// Owns: the mappings, undone at the latest by the destructor.  Threads: safe from any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "opal/core/system/mapping.hpp"
#include "opal/gpu/copies/pinned.hpp"
#include "opal/mpool/pool.hpp"

namespace opal::mpool {

class MappedPool final : public Pool {
 public:
  enum class Kind : std::uint8_t { heap, hugepage, cuda_host };
  explicit MappedPool(Kind kind) noexcept : kind_(kind) {}

  /// Errors of cuda_host beside Allocator's: not_supported (no driver, or the program has no CUDA context yet).
  Result<std::byte*> allocate(std::size_t size, std::size_t alignment) noexcept override;
  Result<void> deallocate(std::byte* address) noexcept override;
  [[nodiscard]] allocator::Usage usage() const noexcept override;
  [[nodiscard]] std::size_t page_size() const noexcept override;

 private:
  struct Block {
    Mapping pages;
    gpu::Pinned pinned{};  // of cuda_host; undone before the pages go
  };

  const Kind kind_;
  mutable std::mutex mutex_;
  std::map<std::byte*, Block> live_;  // tells a good address from a foreign one or one given back twice
  std::size_t bytes_ = 0;
};

}  // namespace opal::mpool
