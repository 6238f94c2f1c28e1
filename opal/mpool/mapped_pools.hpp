// SPDX-License-Identifier: Apache-2.0
// opal/mpool/mapped_pools.hpp — pools whose blocks are private anonymous mappings of their own: heap and hugepage.
// Owns: the mappings, undone at the latest by the destructor.  Threads: safe from any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "opal/core/system/mapping.hpp"
#include "opal/mpool/pool.hpp"

namespace opal::mpool {

/// Live mappings by address; tells a good address from a foreign one or one given back twice.
class MappedPool : public Pool {
 public:
  Result<std::byte*> allocate(std::size_t size, std::size_t alignment) noexcept final;
  Result<void> deallocate(std::byte* address) noexcept final;
  [[nodiscard]] allocator::Usage usage() const noexcept final;

 protected:
  /// Maps `size` bytes, a multiple of page_size(), at a multiple of `alignment`, at least page_size().
  virtual Result<Mapping> map(std::size_t size, std::size_t alignment) noexcept = 0;

 private:
  mutable std::mutex mutex_;
  std::map<std::byte*, Mapping> live_;
  std::size_t bytes_ = 0;
};

class HeapPool final : public MappedPool {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "heap"; }
  [[nodiscard]] std::size_t page_size() const noexcept override;
  [[nodiscard]] PageKind pages() const noexcept override { return PageKind::base; }

 private:
  Result<Mapping> map(std::size_t size, std::size_t alignment) noexcept override;
};

class HugePool final : public MappedPool {
 public:
  /// Finds out, by mapping one page, which kind there is, and says so once.
  HugePool();

  [[nodiscard]] const char* name() const noexcept override { return "hugepage"; }
  [[nodiscard]] std::size_t page_size() const noexcept override { return kHugePage; }
  [[nodiscard]] PageKind pages() const noexcept override;

 private:
  Result<Mapping> map(std::size_t size, std::size_t alignment) noexcept override;
  Result<Mapping> map_hugetlb(std::size_t size, std::size_t alignment) noexcept;
  Result<Mapping> map_transparent(std::size_t size, std::size_t alignment) noexcept;

  PageKind pages_ = PageKind::base;  // decided by the constructor
};

}  // namespace opal::mpool
