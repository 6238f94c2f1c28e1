// SPDX-License-Identifier: Apache-2.0
// opal/btl/tcp/output_queue.hpp — the data of a connection that the kernel has not taken yet, in order: a ring of
// bytes.  The Endpoint owns the queue and the ring's memory.  Nothing here allocates.
// Threads: one caller at a time, as btl::Module.
#pragma once
#include <sys/uio.h>

#include <array>
#include <cstddef>

#include "opal/core/bytes.hpp"
#include "opal/core/export.hpp"

namespace opal::btl::tcp {

class OPAL_EXPORT OutputQueue {
 public:
  static constexpr std::size_t kReserve = 64;  ///< bytes of the ring that fits() keeps free, for a goodbye

  explicit OutputQueue(MutableBytes ring) noexcept : ring_(ring) {}

  [[nodiscard]] bool empty() const noexcept { return backlog_ == 0; }
  /// Bytes in the queue.
  [[nodiscard]] std::size_t backlog() const noexcept { return backlog_; }
  /// True when `size` bytes can be added and the reserve stays free.
  [[nodiscard]] bool fits(std::size_t size) const noexcept { return size + kReserve <= ring_.size() - backlog_; }

  /// Adds a copy of `bytes` at the end.  Requires: fits(), or for a goodbye at most kReserve bytes.
  void append(ByteSpan bytes) noexcept;
  /// Describes all bytes.  The second part is empty unless they wrap around the end of the ring.
  [[nodiscard]] std::array<iovec, 2> gather() const noexcept;
  /// Removes `size` <= backlog() bytes at the front.
  void consume(std::size_t size) noexcept;

 private:
  MutableBytes ring_;
  std::size_t read_ = 0;  // index in the ring of the first byte
  std::size_t backlog_ = 0;
};

}  // namespace opal::btl::tcp
