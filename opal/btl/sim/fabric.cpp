// SPDX-License-Identifier: Apache-2.0
// Lifetime of a fabric and the functions for modules; transit.cpp moves the packets.
#include "opal/btl/sim/fabric.hpp"

#include <sys/eventfd.h>

#include <algorithm>
#include <cassert>

#include "opal/core/system/random.hpp"

namespace opal::btl::sim {
namespace {

/// The fabrics of this process by name.  Global, since Component::open gets configuration only.  It does not own the
/// fabrics.
struct Names {
  std::mutex mutex;
  std::unordered_map<std::string, std::weak_ptr<Fabric>> fabrics;
};

Names& names() {
  static Names all;
  return all;
}

}  // namespace

Fabric::Fabric(const Config& config, bool driven)
    : config_(config),
      driven_(driven),
      id_(random_u64()),
      ns_per_byte_(1e9 / static_cast<double>(config.bandwidth.bytes)),
      random_(config.seed),
      loss_(config.loss) {}

Fabric::~Fabric() {
  const std::lock_guard lock{names().mutex};
  const auto found = names().fabrics.find(config_.fabric);
  if (found != names().fabrics.end() && found->second.expired()) names().fabrics.erase(found);
}

std::shared_ptr<Fabric> Fabric::attach(const Config& config) {
  const std::lock_guard lock{names().mutex};
  std::weak_ptr<Fabric>& entry = names().fabrics[config.fabric];
  std::shared_ptr<Fabric> fabric = entry.lock();
  if (fabric == nullptr) entry = fabric = std::shared_ptr<Fabric>{new Fabric{config, false}};
  return fabric;
}

Result<std::shared_ptr<Fabric>> Fabric::drive(const Config& config) {
  const std::lock_guard lock{names().mutex};
  std::weak_ptr<Fabric>& entry = names().fabrics[config.fabric];
  if (!entry.expired()) return Error{Errc::invalid_argument, 0, "sim: a fabric of this name exists in this process"};
  std::shared_ptr<Fabric> fabric{new Fabric{config, true}};
  entry = fabric;
  return fabric;
}

// --- For the driver

bool Fabric::step() noexcept {
  const auto lock = guard();
  return step_locked();
}

bool Fabric::next_ready(NodeId& node) noexcept {
  while (!ready_.empty()) {
    const NodeId id = ready_.front();
    ready_.pop_front();
    if (nodes_[id] == nullptr) continue;
    nodes_[id]->ready = false;
    node = id;
    return true;
  }
  return false;
}

std::optional<NextEvent> Fabric::next_event() const noexcept {
  const auto lock = guard();
  if (events_.empty()) return std::nullopt;
  const Event& next = events_.top();
  return NextEvent{next.time, next.packet->kind, next.packet->tag};
}

void Fabric::at(std::uint64_t time_ns, std::function<void()> what) {
  assert(driven_ && "timers run where step() is called");
  timers_.emplace(next_event_, std::move(what));
  Packet& packet = *packets_.take(0);
  packet.kind = Packet::Kind::timer;
  schedule(std::max(time_ns, now_), packet);
}

FabricStatistics Fabric::statistics() const noexcept {
  const auto lock = guard();
  return statistics_;
}

FabricUse Fabric::use() const noexcept {
  const auto lock = guard();
  FabricUse use;
  for (const auto& node : nodes_) use.nodes += node != nullptr ? 1 : 0;
  use.links = links_.size() - free_links_.size();
  use.packets = packets_.taken();
  return use;
}

// --- Devices

Node& Fabric::plug(const Config& config, const RegistrationTable& registrations) {
  const auto lock = guard();
  const auto id = static_cast<NodeId>(nodes_.size());
  nodes_.push_back(std::make_unique<Node>(id, config.window, registrations));
  silent_.push_back(false);
  return *nodes_.back();
}

void Fabric::unplug(Node& node) noexcept {
  const auto lock = guard();
  while (Packet* packet = node.inbox) {
    node.inbox = packet->next;
    discard_locked(*packet);
  }
  nodes_[node.id].reset();
}

bool Fabric::knows(NodeId node) noexcept {
  const auto lock = guard();
  return node_locked(node) != nullptr;
}

void Fabric::spend(Node& node, std::uint64_t ns) noexcept {
  const auto lock = guard();
  node.busy_until = std::max(node.busy_until, now_) + ns;
}

bool Fabric::arm(Node& node) noexcept {
  const auto lock = guard();
  if (node.inbox != nullptr || (!driven_ && !events_.empty())) return false;
  if (node.doorbell) {
    eventfd_t count = 0;
    (void)::eventfd_read(node.doorbell.get(), &count);  // clears an earlier notification
  }
  node.armed = true;
  return true;
}

int Fabric::doorbell(Node& node) noexcept {
  const auto lock = guard();
  if (!node.doorbell) node.doorbell = Fd{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  return node.doorbell.get();
}

/// Wakes the node's software if it is armed, and puts the node on the ready list of a driven fabric.
void Fabric::ready_locked(Node& node) noexcept {
  if (node.armed) [[unlikely]] {
    node.armed = false;
    if (node.doorbell) (void)::eventfd_write(node.doorbell.get(), 1);
  }
  if (driven_ && !node.ready) {
    node.ready = true;
    ready_.push_back(node.id);
  }
}

// --- Connections

Link& Fabric::open_link(Node& from, NodeId to, Endpoint& sender) {
  const auto lock = guard();
  if (free_links_.empty()) free_links_.push_back(links_.emplace_back(std::make_unique<Link>()).get());
  Link& link = *free_links_.back();
  free_links_.pop_back();
  link = {};
  link.id = next_link_++;
  link.from = from.id;
  link.to = to;
  link.sender = &sender;
  link.references = 1;
  return link;
}

void Fabric::close_transfers(Link& link) noexcept {
  const auto lock = guard();
  link.closed = true;
}

void Fabric::close_sender(Link& link) noexcept {
  const auto lock = guard();
  link.closed = true;
  link.sender = nullptr;
  release_locked(link);
}

void Fabric::open_receiver(Link& link, Endpoint& receiver) noexcept {
  const auto lock = guard();
  link.receiver = &receiver;
  ++link.references;
}

void Fabric::close_receiver(Link& link) noexcept {
  const auto lock = guard();
  link.receiver = nullptr;
  release_locked(link);
}

void Fabric::release_locked(Link& link) noexcept {
  if (--link.references == 0) free_links_.push_back(&link);
}

// --- Packets

Packet& Fabric::make(Packet::Kind kind, std::size_t size) {
  const auto lock = guard();
  Packet& packet = *packets_.take(size);
  packet.kind = kind;
  return packet;
}

void Fabric::discard(Packet& packet) noexcept {
  const auto lock = guard();
  discard_locked(packet);
}

void Fabric::discard_locked(Packet& packet) noexcept {
  if (Link* link = packet.link; link != nullptr) {
    if (packet.kind == Packet::Kind::message) {
      --link->unhandled;
      if (link->wanted) {
        link->wanted = false;
        if (Node* sender = node_locked(link->from)) ready_locked(*sender);
      }
    }
    release_locked(*link);
  }
  packets_.give_back(packet);
}

bool Fabric::has_room(Link& link) noexcept {
  const auto lock = guard();
  if (link.unhandled < nodes_[link.from]->window) return true;
  link.wanted = true;
  return false;
}

void Fabric::send(Link& link, Packet& packet) noexcept {
  const auto lock = guard();
  Node& from = *nodes_[link.from];
  if (packet.kind == Packet::Kind::message) ++link.unhandled;
  packet.link = &link;
  ++link.references;
  if (from.crashed) return discard_locked(packet);
  const std::uint64_t depart = std::max({now_, from.busy_until, from.sending_until});
  from.sending_until = depart + wire_ns(packet.size);
  link.last_arrival = std::max(link.last_arrival, from.sending_until + travel_ns());
  schedule(link.last_arrival, packet);
  if (!driven_) {
    if (Node* to = node_locked(link.to); to != nullptr && to->armed) ready_locked(*to);
  }
}

void Fabric::reset(const Packet& packet) noexcept {
  const auto lock = guard();
  reset_locked(*packet.link);
}

Packet* Fabric::receive(Node& node, std::size_t& budget) noexcept {
  const auto lock = guard();
  while (node.inbox == nullptr) {
    if (driven_ || budget == 0 || !step_locked()) return nullptr;
    node.armed = false;
    --budget;
  }
  node.armed = false;
  Packet* packet = node.inbox;
  node.inbox = packet->next;
  return packet;
}

}  // namespace opal::btl::sim
