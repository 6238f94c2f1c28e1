// SPDX-License-Identifier: Apache-2.0
// opal/rcache/registrations/large_array.hpp — an array of fixed size, in transparent huge pages from 2 MiB on.
// Reason: a cache of a million registrations accesses a hundred thousand small pages at random, and each access would
// miss the TLB.  Owns its objects.  Threads: as any array.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

#include "opal/core/bytes.hpp"
#include "opal/core/system/mapping.hpp"

namespace opal::rcache {

struct FreeMemory {
  void operator()(void* memory) const noexcept { std::free(memory); }
};
template <class T>
using LargeArray = std::unique_ptr<T[], FreeMemory>;

/// Allocates `count` value-initialised objects; null if memory is short.
template <class T>
LargeArray<T> make_large_array(std::size_t count) noexcept {
  static_assert(std::is_trivially_destructible_v<T> && std::is_nothrow_default_constructible_v<T>);
  const bool huge = count * sizeof(T) >= kHugePage;
  const std::size_t alignment = huge ? kHugePage : kCacheLine;
  const std::size_t size = align_up(count * sizeof(T), alignment);
  void* const memory = std::aligned_alloc(alignment, size);
  if (memory == nullptr) return nullptr;
  if (huge) (void)::madvise(memory, size, MADV_HUGEPAGE);  // if it fails, small pages are used
  auto* const objects = static_cast<T*>(memory);
  std::uninitialized_value_construct_n(objects, count);
  return LargeArray<T>{objects};
}

}  // namespace opal::rcache
