// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/shared/rdma_replies.hpp"

#include <iterator>

#include "opal/btl/module.hpp"
#include "opal/btl/shared/rdma_operations.hpp"
#include "opal/core/log.hpp"

namespace opal::btl {
namespace {

/// Queued messages per peer; a correct peer causes fewer.  It has at most RdmaOperations::kMost operations in flight. A
/// refused put may be answered at its first and its last piece; a transfer requests two registrations at a time.
constexpr std::size_t kMost = 4 * RdmaOperations::kMost;

}  // namespace

void RdmaReplies::send(Endpoint& to, Tag tag, ByteSpan header, ByteSpan handle) noexcept {
  if (!waiting_.contains(&to) && module_.send_inline(to, tag, header, handle) != Post::again) return;
  std::deque<Message>& messages = waiting_[&to];
  if (messages.size() >= kMost) {
    return log::once(log::Level::warn, "emulation flood", "btl",
                     "peer {} posts more operations than it may; answers dropped", to_string(to.peer()));
  }
  Message& message = messages.emplace_back(Message{tag, {header.begin(), header.end()}});
  message.bytes.insert(message.bytes.end(), handle.begin(), handle.end());
  busy_ = true;
}

std::size_t RdmaReplies::progress() noexcept {
  std::size_t count = 0;
  for (auto entry = waiting_.begin(); entry != waiting_.end();) {
    auto& [endpoint, messages] = *entry;
    while (!messages.empty() &&
           module_.send_inline(*endpoint, messages.front().tag, messages.front().bytes, {}) != Post::again) {
      messages.pop_front();
      ++count;
    }
    entry = messages.empty() ? waiting_.erase(entry) : std::next(entry);
  }
  return count;
}

}  // namespace opal::btl
