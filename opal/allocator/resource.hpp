// SPDX-License-Identifier: Apache-2.0
// opal/allocator/resource.hpp — an Allocator as a std::pmr::memory_resource, so that standard containers live in a
// pool. Owns: nothing; the allocator outlives it.  Threads: as safe as the allocator, that is from any thread.
#pragma once
#include <cstddef>
#include <memory_resource>

#include "opal/allocator/allocator.hpp"
#include "opal/core/export.hpp"

namespace opal::allocator {

class OPAL_EXPORT Resource final : public std::pmr::memory_resource {
 public:
  explicit Resource(Allocator& allocator) noexcept : allocator_(allocator) {}

 private:
  /// Throws std::bad_alloc, as memory resources must.
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  /// A block that is not live is a bug of the program which this interface cannot report: says so and aborts.
  void do_deallocate(void* address, std::size_t bytes, std::size_t alignment) override;
  [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override;

  Allocator& allocator_;
};

}  // namespace opal::allocator
