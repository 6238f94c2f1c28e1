// SPDX-License-Identifier: Apache-2.0
// mpi_shim/rma/target/attached.hpp — the table of the memory regions that one rank has attached to a dynamic window.
// It is in memory shared by the ranks of a host, which read it and then access the regions without help of the owner.
// It has at most kMost regions and only those with a key.  For an address that is not in it the origin sends access
// messages.
// Threads: the owner writes, under its Context's lock; any process reads at any time.  A sequence lock protects the
// table: the version is odd during a change.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <tuple>
#include <vector>

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

class AttachedTable {
 public:
  /// Replaces all entries; drops regions beyond kMost.  Owner only.
  void publish(const std::vector<AttachedRegion>& regions) noexcept;

  /// Changes with each publish(), so that a reader can keep a copy of the entries.
  [[nodiscard]] std::uint32_t version() const noexcept { return version_.load(std::memory_order_acquire); }
  /// Copies all entries to `regions` and their version to `version`.  False: the owner changes the table, or has died
  /// while it did; `regions` is then garbage and `version` unchanged.
  [[nodiscard]] bool try_read(std::vector<AttachedRegion>& regions, std::uint32_t& version) const;

 private:
  static constexpr std::size_t kMost = 1024;
  using Words = std::array<std::uint64_t, sizeof(AttachedRegion) / sizeof(std::uint64_t)>;
  using Entry = std::array<std::atomic<std::uint64_t>, std::tuple_size_v<Words>>;  // an AttachedRegion
  std::atomic<std::uint32_t> version_{0};
  std::atomic<std::uint32_t> count_{0};
  std::array<Entry, kMost> entries_{};
};

}  // namespace mpi_shim::rma
