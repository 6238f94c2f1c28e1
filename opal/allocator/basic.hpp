// SPDX-License-Identifier: Apache-2.0
// opal/allocator/basic.hpp — first fit in address order with coalescing, over one fixed range or growing over a parent.
// Fits few or long-lived blocks of mixed sizes; for many small ones take Bucket.
// Owns: the runs it took from its parent, given back by trim() and the destructor.  Threads: safe from any thread.
#pragma once
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

#include "opal/allocator/allocator.hpp"
#include "opal/allocator/first_fit.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/export.hpp"

namespace opal::allocator {

class OPAL_EXPORT Basic final : public Allocator {
 public:
  static constexpr std::size_t kDefaultRun = std::size_t{1} << 20;

  /// Manages exactly `memory`, which stays the caller's and outlives the allocator.  Errors: invalid_argument,
  /// no_memory.
  static Result<std::unique_ptr<Basic>> over(MutableBytes memory) noexcept;

  /// Takes runs of at least `run` bytes from `parent` when it needs them; takes none yet.  Errors: no_memory.
  static Result<std::unique_ptr<Basic>> over(Allocator& parent, std::size_t run = kDefaultRun) noexcept;

  ~Basic() override;

  Result<std::byte*> allocate(std::size_t size, std::size_t alignment = kDefaultAlignment) noexcept override;
  Result<void> deallocate(std::byte* address) noexcept override;
  [[nodiscard]] Usage usage() const noexcept override;
  std::size_t trim() noexcept override;

 private:
  Basic(Allocator* parent, std::size_t run) noexcept : parent_(parent), run_(run) {}
  Result<void> grow_locked(std::size_t size, std::size_t alignment) noexcept;

  Allocator* const parent_;  // null: a fixed range
  const std::size_t run_;
  mutable std::mutex mutex_;
  FirstFit ranges_;                         // over addresses; runs that touch serve one block
  std::map<std::byte*, std::size_t> runs_;  // taken from the parent
};

}  // namespace opal::allocator
