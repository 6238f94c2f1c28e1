// SPDX-License-Identifier: Apache-2.0
// opal/btl/sim/memory/pin_ring.hpp — the few calls of io_uring that Pages needs, made directly: a sparse table of
// registered buffers, and one transfer at a time between such a buffer and a pipe.  Threads: one caller at a time.
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
  /// Errors: not_supported (with errno).
  static Result<std::unique_ptr<PinRing>> open(std::uint32_t buffers);

  /// Puts [base, +size) into the table, or with size 0 takes out what is there.  0, or errno.
  int set_buffer(std::uint32_t index, void* base, std::size_t size) noexcept;
  /// Moves `size` bytes of the buffer, from `address` on, into the pipe or (`fill`) from it.  Bytes, or -errno.
  int transfer(std::uint32_t index, std::uint64_t address, std::uint32_t size, int pipe, bool fill) noexcept;

 private:
  PinRing(Fd ring, Mapping queues, Mapping entries, const io_uring_params& params) noexcept;
  [[nodiscard]] std::uint32_t& word(std::uint32_t offset) const noexcept;

  Fd ring_;
  Mapping queues_;   // submission and completion ring in one
  Mapping entries_;  // submission entries
  io_uring_params params_;
};

}  // namespace opal::btl::sim
