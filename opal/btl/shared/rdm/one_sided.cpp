// SPDX-License-Identifier: Apache-2.0
// Put, get and atomics by the network, in pieces, and the repetition by messages of what it has refused.
#include <algorithm>

#include "opal/btl/shared/rdm/transport.hpp"
#include "opal/btl/shared/rdma_emulation.hpp"
#include "opal/core/log.hpp"

namespace opal::btl::rdm {

void Transport::finish(RdmaOperation& operation, const Error& why) noexcept {
  count_event();
  operations().finish(operation, why);
}

Transport::Way Transport::way_to(Endpoint& endpoint) noexcept {
  if (!endpoint.one_sided()) return Way::messages;
  return endpoint.state() == Endpoint::State::connected ? Way::device : Way::later;
}

void Transport::start(RdmaOperation& operation) noexcept {
  transfer_of(operation).transport = this;
  transfer_of(operation).operation = &operation;
  unposted_.push_back(&operation);
  post_pieces();
}

void Transport::post_pieces() noexcept {
  while (!unposted_.empty()) {
    RdmaOperation& operation = *unposted_.front();
    if (operation.to->dead()) {  // end_operations() finishes the operation
      unposted_.erase(unposted_.begin());
      continue;
    }
    const Post posted = post_piece(operation);
    if (posted == Post::again) return;
    Transfer& transfer = transfer_of(operation);
    if (posted == Post::failed) {
      transfer.refused = true;
    } else {
      ++transfer.in_flight;
      if (operation.moved != operation.total) continue;
    }
    unposted_.erase(unposted_.begin());
    finish_if_ended(operation);
  }
}

void Transport::on_piece(RdmaOperation& operation, std::uint64_t size, const Error& why) noexcept {
  Transfer& transfer = transfer_of(operation);
  --transfer.in_flight;
  if (why.code == Errc{}) {
    transfer.acknowledged += size;
  } else {
    transfer.refused = true;
    operation.error = why;
    std::erase(unposted_, &operation);
  }
  finish_if_ended(operation);
  post_pieces();
}

/// Ends the operation if no piece is in flight and none is left to post.  Messages repeat a put or get that was
/// refused, and their target checks it precisely.
void Transport::finish_if_ended(RdmaOperation& operation) noexcept {
  const Transfer& transfer = transfer_of(operation);
  if (transfer.in_flight != 0) return;
  if (transfer.acknowledged == operation.total) return finish(operation, {});
  if (!transfer.refused) return;
  if (operation.kind == OperationKind::atomic) return finish(operation, operation.error);
  if (!emulate(operation)) refused_.push_back(&operation);
}

void Transport::post_again(const std::vector<RdmaOperation*>& operations) noexcept {
  for (RdmaOperation* const operation : operations) {
    Transfer& transfer = transfer_of(*operation);
    transfer.in_flight = 0;
    transfer.acknowledged = 0;
    transfer.refused = false;
    operation->error = {};
    operation->moved = 0;
    std::erase(unposted_, operation);
    unposted_.push_back(operation);
  }
  std::ranges::sort(unposted_, [](const RdmaOperation* a, const RdmaOperation* b) { return a->order < b->order; });
  on_stalled();
}

/// False: messages have no room.
bool Transport::emulate(RdmaOperation& operation) noexcept {
  Transfer& transfer = transfer_of(operation);
  if (operation.to->dead()) return true;  // end_operations() finishes it
  transfer.fn = [](Completion& self) noexcept {
    auto& done = static_cast<Transfer&>(self);
    if (done.ok()) static_cast<Endpoint*>(done.operation->to)->on_refused();
    done.transport->finish(*done.operation, done.error);
  };
  const MemoryHandle software = transfer.handle.software_handle();
  const Post post = emulation().transfer(operation.kind, *operation.to, operation.local, operation.base, software,
                                         operation.total, transfer);
  if (post == Post::again) return false;
  if (post != Post::queued) finish(operation, transfer.error);
  return true;
}

void Transport::drop(Endpoint& endpoint) noexcept {
  const auto is_its = [&](const RdmaOperation* operation) { return operation->to == &endpoint; };
  std::erase_if(unposted_, is_its);
  drop_pieces(endpoint);
  std::erase_if(refused_, is_its);
}

}  // namespace opal::btl::rdm
