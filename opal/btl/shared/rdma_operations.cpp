// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/shared/rdma_operations.hpp"

#include <algorithm>

namespace opal::btl {

void RdmaOperations::finish(RdmaOperation& operation, const Error& why) noexcept {
  end(operation).finish(why);
  if (!flushes_.empty()) check_flushes();
}

bool RdmaOperations::is_awaited(const RdmaOperation& operation, const Flush& flush) noexcept {
  return (operation.kind == RdmaOperation::Kind::put || operation.kind == RdmaOperation::Kind::atomic) &&
         (flush.to == nullptr || operation.to == flush.to) && operation.order <= flush.upto;
}

void RdmaOperations::tell_flushes(const RdmaOperation& ended) noexcept {
  for (Flush& flush : flushes_) {
    if (is_awaited(ended, flush)) --flush.open;
  }
}

std::size_t RdmaOperations::active(const void* carrier) const noexcept {
  return static_cast<std::size_t>(std::ranges::count_if(slots_, [&](const auto& operation) {
    return operation->kind != RdmaOperation::Kind::none && operation->carrier == carrier;
  }));
}

Post RdmaOperations::flush(const Endpoint* to, Completion& completion) noexcept {
  completion.error = {};
  if (active_ == 0) return Post::done;
  Flush flush{to, posted_, 0, &completion};
  flush.open = static_cast<std::size_t>(
      std::ranges::count_if(slots_, [&](const auto& operation) { return is_awaited(*operation, flush); }));
  if (flush.open == 0) return Post::done;
  flushes_.push_back(flush);
  return Post::queued;
}

void RdmaOperations::check_flushes() noexcept {
  for (std::size_t i = 0; i < flushes_.size();) {
    if (flushes_[i].open != 0) {
      ++i;
      continue;
    }
    Completion& completion = *flushes_[i].completion;
    flushes_.erase(flushes_.begin() + static_cast<std::ptrdiff_t>(i));
    completion.finish();
    i = 0;  // the completion may have posted or flushed
  }
}

}  // namespace opal::btl
