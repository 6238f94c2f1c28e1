// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/shared/rdma_replies.hpp"

#include <iterator>

#include "opal/btl/module.hpp"
#include "opal/btl/shared/rdma_operations.hpp"
#include "opal/core/log.hpp"

namespace opal::btl {
namespace {

/// No honest initiator has more operations under way, and a refused put may be answered at its first and at its last
/// piece.
constexpr std::size_t kMost = 2 * RdmaOperations::kMost;

}  // namespace

void RdmaReplies::send(Endpoint& to, const wire::Reply& reply) noexcept {
  if (!waiting_.contains(&to) && module_.send_inline(to, wire::kReply, bytes_of(reply), {}) != Post::again) return;
  std::deque<wire::Reply>& replies = waiting_[&to];
  if (replies.size() < kMost) {
    replies.push_back(reply);
  } else {
    log::once(log::Level::warn, "emulation flood", "btl", "peer {} posts more operations than it may; answers dropped",
              to_string(to.peer()));
  }
}

std::size_t RdmaReplies::progress() noexcept {
  std::size_t count = 0;
  for (auto entry = waiting_.begin(); entry != waiting_.end();) {
    auto& [endpoint, replies] = *entry;
    while (!replies.empty() &&
           module_.send_inline(*endpoint, wire::kReply, bytes_of(replies.front()), {}) != Post::again) {
      replies.pop_front();
      ++count;
    }
    entry = replies.empty() ? waiting_.erase(entry) : std::next(entry);
  }
  return count;
}

}  // namespace opal::btl
