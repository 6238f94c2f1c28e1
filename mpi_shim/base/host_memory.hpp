// SPDX-License-Identifier: Apache-2.0
// mpi_shim/base/host_memory.hpp — zeroed memory that some processes of one host share.  One of them makes it, in a
// SharedPool, and offers it; the others open it through /proc, so that no name stays, whichever process dies.
// Owns its mapping, and the pool where it was made.  Threads: a resource, one owner at a time.
#pragma once
#include <cstdint>
#include <optional>

#include "mpi_shim/base/names.hpp"
#include "opal/core/system/mapping.hpp"
#include "opal/mpool/shared_pool.hpp"

namespace mpi_shim {

class HostMemory {
 public:
  /// What another process needs to attach.  Travels as bytes; good as long as the memory lives at its maker.
  struct Offer {
    std::uint64_t token = 0;  ///< found again in the memory: the same number of a process may mean another one
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    std::int32_t pid = 0;
    std::int32_t fd = -1;
  };

  HostMemory() noexcept = default;

  /// Errors: no_memory, no_space, limit_reached, os.
  static Result<HostMemory> create(std::uint64_t size);
  /// Errors: os, permission (the maker's descriptors cannot be opened), protocol (it is not what was offered).
  static Result<HostMemory> attach(const Offer& offer);

  explicit operator bool() const noexcept { return !bytes_.empty(); }
  [[nodiscard]] MutableBytes bytes() const noexcept { return bytes_; }
  /// For the process that made it.
  [[nodiscard]] const Offer& offer() const noexcept { return offer_; }

 private:
  std::optional<opal::mpool::SharedPool> pool_;
  opal::Mapping mapping_;
  MutableBytes bytes_;
  Offer offer_;
};

}  // namespace mpi_shim
