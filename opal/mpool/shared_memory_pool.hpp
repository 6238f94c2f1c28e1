// SPDX-License-Identifier: Apache-2.0
// opal/mpool/shared_memory_pool.hpp — the Pool face of a SharedPool: whole pages that local peers can map.
// Owns: its SharedPool.  Threads: safe from any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "opal/mpool/pool.hpp"
#include "opal/mpool/shared_directory.hpp"
#include "opal/mpool/shared_pool.hpp"

namespace opal::mpool {

class SharedMemoryPool final : public Pool {
 public:
  /// With `huge`: hugetlb pages if one is free, else transparent ones, else base pages; says once which.
  static Result<std::unique_ptr<Pool>> open(const Config& config, bool huge);

  SharedMemoryPool(SharedPool pool, bool huge)
      : pool_(std::move(pool)), huge_(huge), entry_(pool_.bytes(), pool_.fd()) {}
  ~SharedMemoryPool() override;

  Result<std::byte*> allocate(std::size_t size, std::size_t alignment) noexcept override;
  Result<void> deallocate(std::byte* address) noexcept override { return pool_.deallocate(address); }
  [[nodiscard]] allocator::Usage usage() const noexcept override;
  std::size_t trim() noexcept override { return pool_.trim(); }

  [[nodiscard]] const char* name() const noexcept override { return huge_ ? "hugepage,shared" : "shared"; }
  [[nodiscard]] std::size_t page_size() const noexcept override { return pool_.page_size(); }
  [[nodiscard]] PageKind pages() const noexcept override { return pool_.pages(); }
  [[nodiscard]] int fd() const noexcept override { return pool_.fd(); }
  [[nodiscard]] std::optional<std::uint64_t> offset_of(const void* address) const noexcept override {
    return pool_.offset_of(address);
  }

 private:
  SharedPool pool_;
  const bool huge_;
  SharedDirectoryEntry entry_;  // ends before pool_, so that no lookup finds it any more
};

}  // namespace opal::mpool
