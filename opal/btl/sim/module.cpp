// SPDX-License-Identifier: Apache-2.0
// Lifetime of a device, its peers and its messages; one-sided operations are in one_sided.cpp.
#include "opal/btl/sim/module.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "opal/btl/shared/rdma_emulation.hpp"

namespace opal::btl::sim {
namespace {

Attributes attributes_for(const Config& config, const Config& fabric) {
  Attributes result;
  result.transport = "sim";
  result.max_send = config.max_send.bytes;
  result.eager = std::min<std::size_t>(result.max_send, 8192);
  result.own_handles = true;
  result.latency_ns = fabric.latency_ns;
  return result;
}

constexpr std::uint64_t kPage = 4096;

}  // namespace

Result<std::unique_ptr<Module>> Module::open(const ModuleParameters& parameters, const Config& config) {
  return std::unique_ptr<Module>{new Module{parameters, config, Fabric::attach(config)}};
}

Module::Module(const ModuleParameters& parameters, const Config& config, std::shared_ptr<Fabric> fabric)
    : MessageTransport(parameters, attributes_for(config, fabric->config())),
      fabric_(std::move(fabric)),
      node_(fabric_->plug(config)),
      address_{kMagic, fabric_->id(), node_.id} {}

Module::~Module() {
  if (inherited()) return;  // the fabric is a copy, but its doorbells would wake the parent's modules
  while (!endpoints_.empty()) disconnect(*endpoints_.begin()->second);
  while (!replaced_.empty()) disconnect(*replaced_.back());
  fabric_->unplug(node_);
}

// --- Peers

Endpoint* Module::find(NodeId node) noexcept {
  const auto found = endpoints_.find(node);
  return found == endpoints_.end() ? nullptr : found->second.get();
}

Endpoint& Module::add(const PeerId& peer, NodeId node) {
  std::unique_ptr<Endpoint>& place = endpoints_[node];
  if (place != nullptr) replaced_.push_back(std::move(place));
  place = std::make_unique<Endpoint>(*this, peer, node);
  place->out_ = &fabric_->open_link(node_, node, *place);
  return *place;
}

Result<btl::Endpoint*> Module::connect(const PeerId& peer, ByteSpan address) {
  Address where{};
  if (address.size() != sizeof where || !read_object(address, where) || where.magic != kMagic) {
    return Error{Errc::protocol, 0, "sim: not an address of this transport", address.size()};
  }
  if (where.fabric != fabric_->id()) {
    return Error{Errc::unreachable, 0, "sim: that device is on another fabric or in another process", where.node};
  }
  const auto node = static_cast<NodeId>(where.node);
  if (where.node > UINT32_MAX || !fabric_->knows(node)) {
    return Error{Errc::unreachable, 0, "sim: no such device on this fabric", where.node};
  }
  if (node_.alone) return Error{Errc::unreachable, EIO, "connect(sim): the device is gone"};
  if (Endpoint* known = find(node); known != nullptr && !known->dead()) return known;
  Endpoint& endpoint = add(peer, node);
  send_control(endpoint, Packet::Kind::connect, bytes_of(parameters().id));
  return &endpoint;
}

void Module::disconnect(btl::Endpoint& to) noexcept {
  auto& endpoint = static_cast<Endpoint&>(to);
  send_control(endpoint, Packet::Kind::disconnect, {});
  fabric_->close_sender(*endpoint.out_);
  if (endpoint.in_ != nullptr) fabric_->close_receiver(*endpoint.in_);
  end_operations(endpoint, {Errc::canceled, 0, "sim: disconnected"});
  if (find(endpoint.node_) == &endpoint) {
    endpoints_.erase(endpoint.node_);
  } else {
    std::erase_if(replaced_, [&](const auto& other) { return other.get() == &endpoint; });
  }
}

void Module::pair(Endpoint& endpoint, Link& incoming) noexcept {
  endpoint.in_ = &incoming;
  fabric_->open_receiver(incoming, endpoint);
}

void Module::send_control(Endpoint& to, Packet::Kind kind, ByteSpan payload) noexcept {
  Packet& packet = fabric_->make(kind, payload.size());
  if (!payload.empty()) std::memcpy(packet.payload(), payload.data(), payload.size());
  (void)fabric_->send(*to.out_, packet);  // only messages are refused
}

// --- Messages

Post Module::send_inline(btl::Endpoint& to, Tag tag, ByteSpan header, ByteSpan payload) noexcept {
  if (!accepts(to, header.size() + payload.size())) return Post::failed;
  Packet& packet = fabric_->make(Packet::Kind::message, header.size() + payload.size());
  if (!header.empty()) std::memcpy(packet.payload(), header.data(), header.size());
  if (!payload.empty()) std::memcpy(packet.payload() + header.size(), payload.data(), payload.size());
  packet.tag = tag;
  if (fabric_->send(*static_cast<Endpoint&>(to).out_, packet)) return Post::done;
  fabric_->discard(packet);
  return Post::again;
}

// --- Memory

Result<MemoryHandle> Module::register_memory(void* base, std::uint64_t size, Rights rights) {
  if (node_.crashed) return Error{Errc::unreachable, EIO, "register_memory(sim): the device is gone"};
  const std::uint64_t pages = (reinterpret_cast<std::uint64_t>(base) % kPage + size + kPage - 1) / kPage;
  fabric_->spend(node_, kRegisterNs + pages * kRegisterPageNs);
  return node_.memory.add(base, size, rights);
}

Result<void> Module::deregister_memory(const MemoryHandle& handle) { return node_.memory.remove(handle); }

void Module::invalidate_memory(const MemoryHandle& handle) noexcept { node_.memory.invalidate(handle); }

// --- Progress

std::size_t Module::progress(std::size_t budget) noexcept {
  if (progressing_) return 0;
  progressing_ = true;
  std::size_t left = budget;
  while (Packet* packet = fabric_->receive(node_, left)) {
    handle(*packet);
    fabric_->discard(*packet);
    if (left == 0 || --left == 0) break;
  }
  const std::size_t sent = send_waiting();
  progressing_ = false;
  return budget - left + sent;
}

/// Sends what back-pressure or a lack of registrations has delayed; returns the number of events.
std::size_t Module::send_waiting() noexcept { return emulation().progress() + pipelined().progress(); }

bool Module::arm() noexcept { return send_waiting() == 0 && fabric_->arm(node_); }

void Module::handle(Packet& packet) noexcept {
  switch (packet.kind) {
    case Packet::Kind::message: return on_message(packet);
    case Packet::Kind::response:
      if (Endpoint* from = packet.link->sender) complete(*from, packet);
      return;
    case Packet::Kind::connect: return on_connect(packet);
    case Packet::Kind::accept: return on_accept(packet);
    case Packet::Kind::disconnect:
      return die(packet.link->receiver, {Errc::peer_gone, 0, "sim: the peer disconnected"});
    case Packet::Kind::failure: return on_failure(packet);
    default: return;  // requests and timers end in the fabric
  }
}

void Module::on_connect(Packet& packet) noexcept {
  Link& incoming = *packet.link;
  // Link ids grow in the order of opening: a lower id belongs to an earlier connection, which the peer has ended.
  std::uint64_t& newest = newest_[incoming.from];
  if (incoming.id < newest) return fabric_->reset(packet);
  newest = incoming.id;
  Endpoint* known = find(incoming.from);
  if (known != nullptr && !known->dead()) {
    if (known->in_ == nullptr) return pair(*known, incoming);          // both sides called connect()
    die(known, {Errc::peer_gone, 0, "sim: the peer connected anew"});  // its disconnect arrives later
  }
  Endpoint& endpoint = add(packet.read<PeerId>(), incoming.from);
  pair(endpoint, incoming);
  send_control(endpoint, Packet::Kind::accept, bytes_of(incoming.id));
  parameters().observer.on_accepted(endpoint);
}

void Module::on_accept(Packet& packet) noexcept {
  Endpoint* endpoint = find(packet.link->from);
  const auto answered = packet.read<std::uint64_t>();
  if (endpoint == nullptr || endpoint->out_->id != answered || endpoint->in_ != nullptr) return;  // disconnected here
  pair(*endpoint, *packet.link);
}

void Module::on_message(Packet& packet) noexcept {
  Endpoint* from = packet.link->receiver;
  if (from == nullptr || from->dead()) return fabric_->reset(packet);
  Delivery delivery{*from, packet.tag, packet.bytes()};
  parameters().handlers.dispatch(delivery);
}

void Module::on_failure(Packet& packet) noexcept {
  const bool silent = packet.read<Errc>() == Errc::timed_out;
  die(packet.link->sender,
      {Errc::peer_gone, 0, silent ? "sim: the peer does not answer" : "sim: the peer has ended this connection"});
}

void Module::die(Endpoint* endpoint, const Error& why) noexcept {
  if (endpoint == nullptr || endpoint->dead()) return;
  endpoint->mark_dead(why);
  fabric_->close_transfers(*endpoint->out_);
  end_operations(*endpoint, why);
  parameters().observer.on_failed(*endpoint, why);
}

}  // namespace opal::btl::sim
