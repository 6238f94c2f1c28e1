// SPDX-License-Identifier: Apache-2.0
// opal/btl/tcp/output_queue.hpp — the data of a connection that the kernel has not taken yet, in order: a ring of
// bytes.  The Endpoint owns the queue and the ring's memory.  Nothing here allocates.
// Threads: one caller at a time, as btl::Module.
#pragma once
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "opal/core/bytes.hpp"

namespace opal::btl::tcp {

class OutputQueue {
 public:
  static constexpr std::size_t kReserve = 64;  ///< bytes of the ring that fits() keeps free, for a goodbye

  explicit OutputQueue(MutableBytes ring) noexcept : ring_(ring) {}

  [[nodiscard]] bool empty() const noexcept { return backlog_ == 0; }
  /// Bytes in the queue.
  [[nodiscard]] std::size_t backlog() const noexcept { return backlog_; }
  /// True when `size` bytes can be added and the reserve stays free.
  [[nodiscard]] bool fits(std::size_t size) const noexcept { return size + kReserve <= ring_.size() - backlog_; }

  /// Adds a copy of `bytes` at the end.  Requires: fits(), or for a goodbye at most kReserve bytes.
  void append(ByteSpan bytes) noexcept {
    if (bytes.empty()) return;
    const std::size_t write = wrap(read_ + backlog_);
    const std::size_t to_end = std::min(bytes.size(), ring_.size() - write);
    std::memcpy(ring_.data() + write, bytes.data(), to_end);
    if (to_end != bytes.size()) std::memcpy(ring_.data(), bytes.data() + to_end, bytes.size() - to_end);
    backlog_ += bytes.size();
  }
  /// Describes all bytes.  The second part is empty unless they wrap around the end of the ring.
  [[nodiscard]] std::array<iovec, 2> gather() const noexcept {
    const std::size_t to_end = std::min(backlog_, ring_.size() - read_);
    return {{{ring_.data() + read_, to_end}, {ring_.data(), backlog_ - to_end}}};
  }
  /// Removes `size` <= backlog() bytes at the front.
  void consume(std::size_t size) noexcept {
    backlog_ -= size;
    // Empty: start over, so that few pages are ever touched.
    read_ = backlog_ == 0 ? 0 : wrap(read_ + size);
  }

 private:
  /// `index` modulo the size of the ring, without a division.  Requires: index < 2 * size.
  [[nodiscard]] std::size_t wrap(std::size_t index) const noexcept {
    return index < ring_.size() ? index : index - ring_.size();
  }

  MutableBytes ring_;
  std::size_t read_ = 0;  // index in the ring of the first byte
  std::size_t backlog_ = 0;
};

}  // namespace opal::btl::tcp
