// SPDX-License-Identifier: Apache-2.0
// opal/btl/tcp/fragment_pool.hpp — the buffers of fragments, all of one size, in one mapping that is touched as needed.
// Last in, first out: a program that uses few touches few.  Owned by its module.
#pragma once
#include <vector>

#include "opal/core/result.hpp"
#include "opal/core/system/mapping.hpp"

namespace opal::btl::tcp {

class FragmentPool {
 public:
  /// Errors: no_memory.
  static Result<FragmentPool> create(std::size_t count, std::size_t size) {
    const std::size_t stride = align_up(size, kCacheLine);
    OPAL_TRY_ASSIGN(Mapping memory, Mapping::anonymous(count * stride, false));
    return FragmentPool{std::move(memory), count, stride};
  }

  /// A buffer, or null when all are taken.
  std::byte* take() noexcept {
    if (free_.empty()) return nullptr;
    std::byte* buffer = free_.back();
    free_.pop_back();
    return buffer;
  }
  void give_back(std::byte* buffer) noexcept { free_.push_back(buffer); }  // its room is there since create()

 private:
  FragmentPool(Mapping memory, std::size_t count, std::size_t stride) : memory_(std::move(memory)) {
    free_.reserve(count);
    for (std::size_t i = count; i > 0; --i) free_.push_back(memory_.data() + (i - 1) * stride);
  }

  Mapping memory_;
  std::vector<std::byte*> free_;
};

}  // namespace opal::btl::tcp
