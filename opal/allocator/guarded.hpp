// SPDX-License-Identifier: Apache-2.0
// opal/allocator/guarded.hpp — an Allocator for debugging, on top of another one (variable mpool_guard).  It puts red
// zones around each block and fills new and freed blocks with fixed bytes.  It logs an error for:
//   a write before or after a block   detected when the block is freed, or in the destructor
//   a write into a freed block        detected when the block leaves the quarantine, at the latest in the destructor
//   blocks that were not freed        counted in the destructor; at most ten are listed
// Freed blocks stay in quarantine, up to kQuarantine bytes, before the parent gets them back.  The oldest leaves first;
// a block above kQuarantine leaves at once, and empties the quarantine.  Unlike other allocators it writes into its
// blocks.  Owns: the memory that it allocated from its parent.  Threads: safe from any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>

#include "opal/allocator/allocator.hpp"
#include "opal/core/export.hpp"

namespace opal::allocator {

class OPAL_EXPORT Guarded final : public Allocator {
 public:
  static constexpr std::size_t kRedZone = 64;                       ///< bytes after a block, and at least before it
  static constexpr std::byte kFresh{0xcd};                          ///< content of a new block
  static constexpr std::byte kFreed{0xdd};                          ///< content of a block in quarantine
  static constexpr std::size_t kQuarantine = std::size_t{4} << 20;  ///< most bytes in quarantine, red zones included

  explicit Guarded(Allocator& parent) noexcept : parent_(parent) {}
  /// Logs the blocks that were not freed, and returns all memory to the parent.
  ~Guarded() override;

  Result<std::byte*> allocate(std::size_t size, std::size_t alignment = kDefaultAlignment) noexcept override;
  Result<void> deallocate(std::byte* address) noexcept override;
  /// `used`: the requested bytes of live blocks.  `managed`: the bytes of live blocks and of blocks in quarantine, red
  /// zones included.
  [[nodiscard]] Usage usage() const noexcept override;
  /// Checks the blocks in quarantine, returns them to the parent, and trims the parent.
  std::size_t trim() noexcept override;

 private:
  struct Block {
    std::byte* base = nullptr;  // start of the parent's block
    std::size_t total = 0;      // bytes of the parent's block
    std::size_t size = 0;       // bytes that the caller requested; 1 for 0
    std::uint64_t number = 0;   // of the allocation, counted from 1
  };
  using Blocks = std::map<std::byte*, Block>;

  void check_red_zones_locked(const std::byte* address, const Block& block) noexcept;
  /// Checks the oldest blocks and returns them to the parent, until at most `bytes` are in quarantine.  Returns the
  /// number of bytes returned.
  std::size_t shorten_quarantine_locked(std::size_t bytes) noexcept;
  std::size_t trim_locked() noexcept;

  Allocator& parent_;
  mutable std::mutex mutex_;
  Blocks live_;
  Blocks freed_;
  std::deque<std::byte*> quarantine_;  // the keys of freed_, oldest first
  std::size_t quarantined_ = 0;        // sum of Block::total in freed_
  std::uint64_t next_number_ = 1;
  Usage usage_;
};

}  // namespace opal::allocator
