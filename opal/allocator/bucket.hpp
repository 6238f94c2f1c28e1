// SPDX-License-Identifier: Apache-2.0
// opal/allocator/bucket.hpp — one stack of free blocks per power of two; a freed block is the next one handed out.
// A block of 2^k bytes lies at a multiple of 2^k, so an alignment above the size selects the class of the alignment.
// For memory that malloc does not have: registered, shared or huge pages, whose blocks programs take rarely and keep.
// So it has one lock and no thread caches, which would hold such memory back from other threads;
// docs/results/allocators.md compares it with malloc.  Blocks are cut from slabs taken from a parent; a size or
// alignment above Options::largest gets a block of its own from the parent.
// Invariant: the vector `free` of a class has capacity for all its blocks, so deallocate() allocates nothing.
// Owns: the slabs; trim() gives back those without live blocks, the destructor all.  The parent is called with the lock
// held.  Errors: as Allocator, and the parent's.  Threads: safe from any thread.
#pragma once
#include <array>
#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

#include "opal/allocator/allocator.hpp"
#include "opal/core/export.hpp"

namespace opal::allocator {

class OPAL_EXPORT Bucket final : public Allocator {
 public:
  /// Not checked; `smallest` is at most `largest`.
  struct Options {
    std::size_t smallest = 16;                   ///< block size of the first class; a power of two
    std::size_t largest = std::size_t{1} << 20;  ///< block size of the last class; a power of two
    std::size_t slab = std::size_t{64} << 10;    ///< bytes of a slab, at least one block; a power of two
  };

  /// Takes nothing from `parent` yet.
  Bucket(Allocator& parent, Options options) noexcept : parent_(parent), options_(options) {}
  ~Bucket() override;

  Result<std::byte*> allocate(std::size_t size, std::size_t alignment = kDefaultAlignment) noexcept override;
  Result<void> deallocate(std::byte* address) noexcept override;
  [[nodiscard]] Usage usage() const noexcept override;
  std::size_t trim() noexcept override;

 private:
  /// Memory from the parent, cut into equal blocks.
  struct Slab {
    std::size_t bytes = 0;
    std::size_t block = 0;            // bytes of one block
    std::size_t live = 0;             // blocks handed out
    bool dedicated = false;           // one block, size or alignment above `largest`; given back when freed
    std::vector<bool> live_blocks{};  // one per block, set while live: detects a double free
  };
  using Slabs = std::map<std::byte*, Slab>;

  struct FreeBlock {
    std::byte* address;
    Slabs::iterator slab;
  };
  struct Class {
    std::vector<FreeBlock> free;
    std::size_t blocks = 0;  // free or not, in all slabs of this class
  };

  Result<Slabs::iterator> add_slab_locked(std::size_t bytes, std::size_t block, std::size_t alignment) noexcept;
  Result<std::byte*> allocate_dedicated_locked(std::size_t size, std::size_t alignment) noexcept;
  Result<void> refill_locked(Class& size_class, std::size_t block) noexcept;
  std::byte* take_block_locked(Slabs::iterator slab, std::byte* address) noexcept;
  void release_slab_locked(Slabs::iterator slab) noexcept;
  Class& class_of(std::size_t block) noexcept;

  Allocator& parent_;
  const Options options_;
  mutable std::mutex mutex_;
  std::array<Class, 64> classes_;  // index: log2 of the block size
  Slabs slabs_;
  Usage usage_;
};

}  // namespace opal::allocator
