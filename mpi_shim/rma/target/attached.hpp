// SPDX-License-Identifier: Apache-2.0
// mpi_shim/rma/target/attached.hpp — the table of the memory regions that one rank has attached to a dynamic window.
// It is in memory shared by the ranks of a host, which read it and then access the regions without help of the owner.
// It has at most kMost regions and only those with a key.  For an address that is not in it the origin sends access
// messages.
// Threads: the owner's UpdateLock guards all but `version`.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>

#include "mpi_shim/base/names.hpp"

namespace mpi_shim::rma {

struct AttachedRegion {
  std::uint64_t base = 0;            ///< address in the owner's memory
  std::uint64_t size = 0;            ///< bytes
  std::uint64_t key_size = 0;        ///< bytes of `key` in use
  std::array<std::byte, 192> key{};  ///< of its registration; the longest keys are those of GPU memory

  [[nodiscard]] bool contains(std::uint64_t address, std::uint64_t length) const noexcept {
    return address >= base && address - base <= size && length <= size - (address - base);
  }
};

/// All-zero bytes are a table without regions.
struct AttachedTable {
  static constexpr std::uint32_t kMost = 1024;

  std::atomic<std::uint32_t> version{0};  ///< changes with the table, so that a reader can keep a copy
  std::uint32_t count = 0;                ///< a reader does not trust it to be at most kMost, nor a key_size
  std::array<AttachedRegion, kMost> regions{};
};

}  // namespace mpi_shim::rma
