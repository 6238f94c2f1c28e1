// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/tcp/output_queue.hpp"

#include <algorithm>
#include <cstring>

namespace opal::btl::tcp {

void OutputQueue::append(ByteSpan bytes) noexcept {
  if (bytes.empty()) return;
  const std::size_t write = (read_ + backlog_) % ring_.size();
  const std::size_t to_end = std::min(bytes.size(), ring_.size() - write);
  std::memcpy(ring_.data() + write, bytes.data(), to_end);
  if (to_end != bytes.size()) std::memcpy(ring_.data(), bytes.data() + to_end, bytes.size() - to_end);
  backlog_ += bytes.size();
}

std::array<iovec, 2> OutputQueue::gather() const noexcept {
  const std::size_t to_end = std::min(backlog_, ring_.size() - read_);
  return {{{ring_.data() + read_, to_end}, {ring_.data(), backlog_ - to_end}}};
}

void OutputQueue::consume(std::size_t size) noexcept {
  backlog_ -= size;
  read_ = backlog_ == 0 ? 0 : (read_ + size) % ring_.size();  // empty: start over, so that few pages are ever touched
}

}  // namespace opal::btl::tcp
