// SPDX-License-Identifier: Apache-2.0
// opal/btl/sim/memory/pin_ring.hpp — an io_uring with a sparse table of registered buffers, by system calls without
// liburing.  It does one transfer at a time between a buffer and a pipe.  Threads: one caller at a time.
#pragma once
#include <linux/io_uring.h>

#include <cstdint>
#include <memory>

#include "opal/core/result.hpp"
#include "opal/core/system/fd.hpp"
#include "opal/core/system/mapping.hpp"

namespace opal::btl::sim {

class PinRing {
 public:
  /// Makes a ring with a table of `buffers` empty entries.  Errors: not_supported (with errno).
  static Result<std::unique_ptr<PinRing>> open(std::uint32_t buffers);

  /// Registers [base, +size) as entry `index`; size 0 empties the entry.  Returns 0 or an errno.
  int set_buffer(std::uint32_t index, void* base, std::size_t size) noexcept;
  /// Copies up to `size` bytes between the buffer at `address` and the pipe: to the buffer if `fill`, else to the pipe.
  /// Returns the number of bytes or -errno.
  int transfer(std::uint32_t index, std::uint64_t address, std::uint32_t size, int pipe, bool fill) noexcept;

 private:
  PinRing(Fd ring, Mapping queues, Mapping entries, const io_uring_params& params) noexcept;
  /// The 32-bit word at `offset` of the shared rings.
  [[nodiscard]] std::uint32_t& word(std::uint32_t offset) const noexcept;

  Fd ring_;
  Mapping queues_;   // submission ring and completion ring
  Mapping entries_;  // submission entries
  io_uring_params params_;
};

}  // namespace opal::btl::sim
