// SPDX-License-Identifier: Apache-2.0
// Events of the fabric: arrival, loss, partitions and crashes; and the execution of transfers by devices.
#include <algorithm>
#include <cerrno>
#include <cmath>

#include "opal/btl/shared/registrations/claims.hpp"
#include "opal/btl/sim/fabric.hpp"
#include "opal/btl/sim/transfer.hpp"
#include "opal/core/system/guarded_copy.hpp"

namespace opal::btl::sim {
namespace {

constexpr std::size_t kChunk = 256 << 10;  // bytes of a transfer that a device moves in one event

/// Moves at most one chunk, or executes an atomic, and updates transfer.moved.
Result<void> move_chunk(Transfer& transfer, const RegistrationView& target) noexcept {
  const bool atomic = transfer.kind == OperationKind::atomic;
  const Rights wanted = atomic ? Rights::remote_atomic : right_for(transfer.kind);
  // Check the whole range: a transfer that is partly outside moves nothing.
  OPAL_TRY(target.check(transfer.remote, transfer.remote_address, transfer.size, wanted));
  const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(kChunk, transfer.size - transfer.moved));
  auto* const there = reinterpret_cast<std::byte*>(transfer.remote_address + transfer.moved);
  std::byte* const here = transfer.local + transfer.moved;
  const auto execute = [&] {
    transfer.old_value = execute_atomic(transfer.op, transfer.type, there, transfer.operand, transfer.compare);
  };
  const bool put = transfer.kind == OperationKind::put;
  if (!(atomic ? guarded_access(there, size, execute) : guarded_copy(put ? there : here, put ? here : there, size))) {
    return Error{Errc::invalid_argument, EFAULT, "sim: a device accessed memory that is not there",
                 transfer.remote_address};
  }
  transfer.moved += size;
  return {};
}

}  // namespace

std::uint64_t Fabric::wire_ns(std::uint64_t bytes) const noexcept {
  constexpr std::uint64_t kHeader = 32;
  return static_cast<std::uint64_t>(std::llround(static_cast<double>(bytes + kHeader) * ns_per_byte_));
}

std::uint64_t Fabric::travel_ns() noexcept {
  return config_.latency_ns + (config_.jitter_ns != 0 ? random_.up_to(config_.jitter_ns) : 0);
}

bool Fabric::cut_locked(const Link& link) const noexcept {
  const Node* const from = node_locked(link.from);
  const Node* const to = node_locked(link.to);
  return silent_[link.from] || silent_[link.to] || (from != nullptr && to != nullptr && from->group != to->group);
}

bool Fabric::step_locked() noexcept {
  if (events_.empty()) return false;
  const Event event = events_.top();
  events_.pop();
  now_ = event.time;
  ++statistics_.events;
  if (event.packet->kind == Packet::Kind::timer) {
    const auto timer = timers_.extract(event.age);
    packets_.give_back(*event.packet);
    timer.mapped()();  // only on a driven fabric, where no lock is held
  } else {
    arrive_locked(event);
  }
  return true;
}

void Fabric::arrive_locked(const Event& event) noexcept {
  Packet& packet = *event.packet;
  Link& link = *packet.link;
  Node* from = node_locked(link.from);
  Node* to = node_locked(link.to);
  if (link.broken && packet.kind != Packet::Kind::failure) return discard_locked(packet);
  if (!packet.backward && now_ < link.stalled_until) return put_off(event, link.stalled_until);
  if (cut_locked(link) || random_.chance(loss_)) return lose_locked(event);
  packet.attempts = 0;
  if (packet.backward) {
    if (from == nullptr || from->crashed) return discard_locked(packet);
    return deliver_locked(*from, packet);
  }
  if (to == nullptr || to->crashed) {
    reset_locked(link);
    return discard_locked(packet);
  }
  if (packet.kind == Packet::Kind::request) return serve_locked(packet);
  if (packet.kind == Packet::Kind::message) ++statistics_.messages;
  deliver_locked(*to, packet);
}

void Fabric::lose_locked(const Event& event) noexcept {
  Packet& packet = *event.packet;
  Link& link = *packet.link;
  ++statistics_.lost;
  if (!config_.reliable && packet.kind == Packet::Kind::message) return discard_locked(packet);
  if (++packet.attempts > config_.retries) {
    if (packet.kind == Packet::Kind::failure) return discard_locked(packet);
    ++statistics_.given_up;
    link.broken = true;  // also if the sender's software has crashed
    Node* from = node_locked(link.from);
    if (from != nullptr && !from->crashed) break_locked(link, *from);
    return discard_locked(packet);
  }
  const std::uint64_t again = now_ + config_.retry_ns;
  if (!packet.backward) {
    link.stalled_until = again;
    link.last_arrival = std::max(link.last_arrival, again);
  }
  put_off(event, again);
}

/// The sender's device reports a broken link to its software, without latency.
void Fabric::break_locked(Link& link, Node& from) noexcept {
  link.broken = true;
  Packet& failure = *packets_.take(sizeof(Errc));
  failure.kind = Packet::Kind::failure;
  failure.write(Errc::timed_out);
  failure.link = &link;
  failure.backward = true;
  ++link.references;
  deliver_locked(from, failure);
}

/// Executes one chunk of a request for the target's device.  Queues the next chunk as an event, or sends the response.
void Fabric::serve_locked(Packet& packet) noexcept {
  Link& link = *packet.link;
  if (link.closed || node_locked(link.from) == nullptr) return discard_locked(packet);
  auto transfer = packet.read<Transfer>();
  const std::uint64_t before = transfer.moved;
  const Result<void> moved = move_chunk(transfer, nodes_[link.to]->registrations.view());
  if (!moved) {
    transfer.error = moved.error();
    ++statistics_.faults;
  }
  packet.write(transfer);
  const std::uint64_t wire = wire_ns(transfer.moved - before);
  if (moved && transfer.moved < transfer.size) return schedule(now_ + wire, packet);
  ++statistics_.transfers;
  packet.kind = Packet::Kind::response;
  packet.backward = true;
  schedule(now_ + wire + travel_ns(), packet);
}

void Fabric::deliver_locked(Node& node, Packet& packet) noexcept {
  packet.next = nullptr;
  (node.inbox == nullptr ? node.inbox : node.inbox_last->next) = &packet;
  node.inbox_last = &packet;
  ready_locked(node);
}

void Fabric::reset_locked(Link& link) noexcept {
  ++statistics_.resets;
  Packet& packet = *packets_.take(sizeof(Errc));
  packet.kind = Packet::Kind::failure;
  packet.write(Errc::peer_gone);
  packet.link = &link;
  packet.backward = true;
  ++link.references;
  schedule(now_ + travel_ns(), packet);
}

// --- Faults

void Fabric::crash(NodeId id, Crash how) noexcept {
  const auto lock = guard();
  Node* node = node_locked(id);
  if (node == nullptr || node->crashed) return;
  node->crashed = true;
  node->alone = how == Crash::device;
  silent_[id] = how != Crash::process;
  while (Packet* packet = node->inbox) {
    node->inbox = packet->next;
    discard_locked(*packet);
  }
  if (how == Crash::host) return;
  std::vector<Link*> told;
  for (const auto& link : links_) {
    const NodeId sender_or_receiver = how == Crash::device ? link->from : link->to;
    if (link->references != 0 && sender_or_receiver == id && !link->closed) told.push_back(link.get());
  }
  // In the order of ids, so that a run repeats exactly: the order in links_ depends on the order in which links were
  // closed, which may depend on PeerIds, and these are random.
  std::sort(told.begin(), told.end(), [](const Link* a, const Link* b) { return a->id < b->id; });
  for (Link* link : told) how == Crash::device ? break_locked(*link, *node) : reset_locked(*link);
}

void Fabric::set_group(NodeId id, std::uint32_t group) noexcept {
  const auto lock = guard();
  if (Node* node = node_locked(id)) node->group = group;
}

void Fabric::heal() noexcept {
  const auto lock = guard();
  for (const auto& node : nodes_) {
    if (node != nullptr) node->group = 0;
  }
}

void Fabric::set_loss(double probability) noexcept {
  const auto lock = guard();
  loss_ = probability;
}

}  // namespace opal::btl::sim
