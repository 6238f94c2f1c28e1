// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/tcp/output_queue.hpp"

#include <algorithm>
#include <cstring>

namespace opal::btl::tcp {
namespace {

/// `index` modulo `size`, without a division.  Requires: index < 2 * size.
std::size_t wrap(std::size_t index, std::size_t size) noexcept { return index < size ? index : index - size; }

}  // namespace

void OutputQueue::append(ByteSpan bytes) noexcept {
  if (bytes.empty()) return;
  const std::size_t write = wrap(read_ + backlog_, ring_.size());
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
  // Empty: start over, so that few pages are ever touched.
  read_ = backlog_ == 0 ? 0 : wrap(read_ + size, ring_.size());
}

}  // namespace opal::btl::tcp
