// SPDX-License-Identifier: Apache-2.0
// opal/mpool/mapped_pool.hpp — a pool in which each block is a private anonymous mapping.
// Owns: the mappings; the destructor unmaps those that are left.  Threads: safe from any thread.
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

  /// As Pool::allocate().  Kind cuda_host also has the errors of gpu::Pinned::make().
  Result<std::byte*> allocate(std::size_t size, std::size_t alignment) noexcept override;
  Result<void> deallocate(std::byte* address) noexcept override;
  [[nodiscard]] Usage usage() const noexcept override;

 private:
  struct Block {
    Mapping pages;
    gpu::Pinned pinned{};  // of cuda_host; declared after `pages`, so it is unpinned before they are unmapped
  };

  [[nodiscard]] std::size_t page_size() const noexcept;

  const Kind kind_;
  mutable std::mutex mutex_;
  std::map<std::byte*, Block> live_;  // by address; deallocate() rejects other addresses
  std::size_t bytes_ = 0;             // sum of the sizes in live_
};

}  // namespace opal::mpool
