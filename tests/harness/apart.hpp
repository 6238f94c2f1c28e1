// SPDX-License-Identifier: Apache-2.0
// tests/harness/apart.hpp — memory for tests that unmap it and map other memory in its place.  The kernel gives what it
// chooses itself next to other mappings: a hole there is taken by the next mapping, be it a sanitizer's allocator.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace opal::test {

/// Private zeroed memory far below everything that the kernel would give (and within what TSan takes for memory of the
/// program); MAP_FAILED when there is none.
inline void* map_apart(std::size_t size) {
  constexpr std::uintptr_t kApart = std::uintptr_t{1} << 36;
  static std::uintptr_t next = [] {
    void* const near = ::mmap(nullptr, 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ::munmap(near, 1);
    return (reinterpret_cast<std::uintptr_t>(near) - kApart) & ~((std::uintptr_t{1} << 30) - 1);
  }();
  for (int tries = 0; tries < 64; ++tries) {
    next -= std::uintptr_t{1} << 30;
    void* const at = ::mmap(reinterpret_cast<void*>(next), size, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (at != MAP_FAILED) return at;
  }
  return MAP_FAILED;
}

}  // namespace opal::test
