// SPDX-License-Identifier: Apache-2.0
// opal/allocator/guarded.hpp — finds wrong uses of blocks: any Allocator with red zones around its blocks, poison in
// fresh and freed ones, and a list of what was never freed.
//   written before or after a block   seen when it is freed
//   written after it was freed        seen when it leaves the quarantine of freed blocks, at the latest at the end
//   not freed                         named at the end, by size and number of the allocation
// Each is an error in the log; nothing is hidden from the program: a freed block is freed.  Costs memory
// and time, so it is a choice (mpool_guard), in every build.  Unlike other allocators it writes into its blocks'
// memory. Owns: what it took from its parent.  Threads: safe from any thread.
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
  static constexpr std::size_t kRedZone = 64;                       ///< bytes before (at least) and after a block
  static constexpr std::byte kFresh{0xcd};                          ///< content of a new block
  static constexpr std::byte kFreed{0xdd};                          ///< of one in quarantine
  static constexpr std::size_t kQuarantine = std::size_t{4} << 20;  ///< bytes that are kept from being used again

  explicit Guarded(Allocator& parent) noexcept : parent_(parent) {}
  /// Reports what was not freed, and gives it back.
  ~Guarded() override;

  Result<std::byte*> allocate(std::size_t size, std::size_t alignment = kDefaultAlignment) noexcept override;
  Result<void> deallocate(std::byte* address) noexcept override;
  /// Of live blocks, as the program asked for them; managed: with red zones and quarantine.
  [[nodiscard]] Usage usage() const noexcept override;
  /// Empties the quarantine, looking at it once more.
  std::size_t trim() noexcept override;

 private:
  struct Block {
    std::byte* base = nullptr;  // the parent's
    std::size_t total = 0;      // bytes of it
    std::size_t size = 0;
    std::uint64_t number = 0;  // of the allocation
  };
  using Blocks = std::map<std::byte*, Block>;

  void look_around_locked(const std::byte* address, const Block& block) noexcept;
  void release_locked(Blocks::node_type freed) noexcept;
  std::size_t shorten_quarantine_locked(std::size_t bytes) noexcept;
  std::size_t trim_locked() noexcept;

  Allocator& parent_;
  mutable std::mutex mutex_;
  Blocks live_;
  Blocks freed_;
  std::deque<std::byte*> quarantine_;  // freed_, oldest first
  std::size_t quarantined_ = 0;        // bytes
  std::uint64_t next_number_ = 1;
  Usage usage_;
};

}  // namespace opal::allocator
