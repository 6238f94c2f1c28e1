// SPDX-License-Identifier: Apache-2.0
// mpi_shim/base/host_memory.hpp — zeroed memory that processes of one host share.  One process creates it in a
// SharedPool and sends its AttachInfo to the others, which open it through /proc/PID/fd.  The memory has no name in a
// file system, so none is left over when a process dies.
// Owns the mapping of this process, and at the creator the pool.
// Threads: one at a time; `bytes()` from any thread.
#pragma once
#include <cstdint>
#include <optional>

#include "mpi_shim/base/names.hpp"
#include "opal/core/system/mapping.hpp"
#include "opal/mpool/shared_pool.hpp"

namespace mpi_shim {

class HostMemory {
 public:
  /// The data with which another process of the host attaches.  It is sent as bytes, and is valid while the creator's
  /// HostMemory exists.
  struct AttachInfo {
    std::uint64_t token = 0;   ///< random; also in the header.  Another token there: the kernel has reused the pid
    std::uint64_t offset = 0;  ///< of the header in the file, bytes; the memory follows the header
    std::uint64_t size = 0;    ///< bytes of the memory, without the header
    std::int32_t pid = 0;      ///< of the creator
    std::int32_t fd = -1;      ///< of the creator; -1: there is no memory
  };

  HostMemory() noexcept = default;

  /// `size`: bytes.  Errors: no_memory, no_space, limit_reached, os.
  static Result<HostMemory> create(std::uint64_t size);
  /// Errors: os, permission (the kernel denies access to the creator's descriptors), protocol (the file
  /// found there is too small or has another token).
  static Result<HostMemory> attach(const AttachInfo& made);

  explicit operator bool() const noexcept { return !bytes_.empty(); }
  [[nodiscard]] MutableBytes bytes() const noexcept { return bytes_; }
  /// Creator only.
  [[nodiscard]] const AttachInfo& attach_info() const noexcept { return info_; }

 private:
  std::optional<opal::mpool::SharedPool> pool_;
  opal::Mapping mapping_;
  MutableBytes bytes_;
  AttachInfo info_;
};

}  // namespace mpi_shim
