// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/sim/module.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "opal/btl/rails/module.hpp"
#include "opal/btl/sim/component.hpp"
#include "opal/btl/sim/transfer.hpp"
#include "opal/core/copy.hpp"

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

/// The payload of connect and accept packets.
struct Introduction {
  PeerId from;
  std::uint64_t link;  // accept: Link::id of the link that connect was sent on
};

}  // namespace

Result<std::unique_ptr<Module>> Module::open(const ModuleParameters& parameters, const Config& config) {
  return std::unique_ptr<Module>{new Module{parameters, config, Fabric::attach(config)}};
}

Module::Module(const ModuleParameters& parameters, const Config& config, std::shared_ptr<Fabric> fabric)
    : DeviceTransport(parameters, attributes_for(config, fabric->config())),
      fabric_(std::move(fabric)),
      node_(fabric_->plug(config, parameters.registrations)),
      address_{kMagic, fabric_->id(), node_.id},
      memory_(*fabric_, parameters.registrations,
              {config.registrations, config.registered_bytes.bytes == 0 ? UINT64_MAX : config.registered_bytes.bytes}) {
}

Module::~Module() {
  // In the order of their links, since PeerIds are random: a run must repeat exactly.
  std::vector<Endpoint*> endpoints;
  for (const auto& [peer, endpoint] : living()) endpoints.push_back(endpoint.get());
  std::ranges::sort(endpoints, {}, [](const Endpoint* endpoint) { return endpoint->out_->id; });
  for (Endpoint* const endpoint : endpoints) disconnect(*endpoint);
  end_all();
  if (inherited()) return;  // the fabric is a copy, but its doorbells would wake the parent's modules
  if (waiting_ != nullptr) fabric_->discard(*waiting_);
  fabric_->unplug(node_);
}

// --- Peers

Endpoint::Endpoint(Module& module, const PeerId& peer, NodeId node) noexcept
    : btl::Endpoint(module, peer),
      sim_(module),
      node_(node),
      out_(&module.fabric_->open_link(module.node_, node, *this)) {}

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
  if (Endpoint* const known = find(peer); known != nullptr) {
    if (known->node_ == node) return known;
    die(known, {Errc::peer_gone, 0, "sim: the peer has a new device"});
  }
  Endpoint& endpoint = add(std::make_unique<Endpoint>(*this, peer, node));
  const Introduction introduction{parameters().id, 0};
  send_control(endpoint, Packet::Kind::connect, bytes_of(introduction));
  return &endpoint;
}

bool Module::leave(Endpoint& endpoint, const Error& why) noexcept {
  endpoint.mark_dead(why);
  send_control(endpoint, Packet::Kind::disconnect, {});
  fabric_->close_sender(*endpoint.out_);
  if (endpoint.in_ != nullptr) fabric_->close_receiver(*endpoint.in_);
  return false;
}

void Module::pair(Endpoint& endpoint, Link& incoming) noexcept {
  endpoint.in_ = &incoming;
  fabric_->open_receiver(incoming, endpoint);
}

void Module::send_control(Endpoint& to, Packet::Kind kind, ByteSpan payload) noexcept {
  Packet& packet = fabric_->make(kind, payload.size());
  copy_to(packet.payload(), payload);
  fabric_->send(*to.out_, packet);
}

// --- Messages

Post Endpoint::send_inline(Tag tag, ByteSpan header, ByteSpan payload) noexcept {
  if (!sim_.fabric_->has_room(*out_)) return Post::again;
  Packet& packet = sim_.fabric_->make(Packet::Kind::message, header.size() + payload.size());
  copy_to(packet.payload(), header);
  copy_to(packet.payload() + header.size(), payload);
  packet.tag = tag;
  sim_.fabric_->send(*out_, packet);
  return Post::done;
}

Post Endpoint::send_buffer(Tag tag, Buffer& buffer, std::size_t size) noexcept {
  const Post post = send_inline(tag, {}, {&buffer, size});
  if (post == Post::done) sim_.give_back(&buffer);
  return post;
}

// --- Memory, puts, gets and atomics

Result<MemoryHandle> Module::register_memory(void* base, std::uint64_t size, Rights rights) {
  if (node_.crashed) return Error{Errc::unreachable, EIO, "register_memory(sim): the device is gone"};
  const std::uint64_t pages = (reinterpret_cast<std::uint64_t>(base) % kPage + size + kPage - 1) / kPage;
  fabric_->spend(node_, kRegisterNs + pages * kRegisterPageNs);
  return memory_.add(base, size, rights);
}

void Module::start(RdmaOperation& operation) noexcept {
  const DeviceTransfer& request = transfer_of(operation);
  Transfer transfer{};
  transfer.operation = operations().name_of(operation);
  transfer.remote = request.handle.software;
  transfer.remote_address = operation.base;
  transfer.size = operation.total;
  transfer.local = operation.local;
  transfer.kind = operation.kind;
  if (operation.kind == OperationKind::atomic) {
    transfer.operand = request.request.operand;
    transfer.compare = request.request.compare;
    transfer.op = request.request.op;
    transfer.type = request.request.type;
  }
  send_control(static_cast<Endpoint&>(*operation.to), Packet::Kind::request, bytes_of(transfer));
}

void Module::on_response(Packet& packet) noexcept {
  const auto transfer = packet.read<Transfer>();
  Endpoint* const from = packet.link->sender;
  RdmaOperation* const operation = from != nullptr ? operations().find(transfer.operation, *from, this) : nullptr;
  if (operation == nullptr) return;  // ended when its endpoint died
  const bool done = transfer.error.code == Errc{};
  if (done && operation->kind == OperationKind::atomic && operation->result != nullptr) {
    *operation->result = transfer.old_value;
  }
  finish(*operation, transfer.error);
}

// --- Progress

std::size_t Module::receive(std::size_t budget) noexcept {
  std::size_t left = budget;
  while (Packet* const packet = waiting_ != nullptr ? waiting_ : fabric_->receive(node_, left)) {
    waiting_ = handle(*packet) ? nullptr : packet;
    if (waiting_ != nullptr) break;
    fabric_->discard(*packet);
    if (left == 0 || --left == 0) break;
  }
  return budget - left + pipelined().progress();
}

bool Module::arm_wake_up() noexcept {
  return waiting_ == nullptr && pipelined().progress() == 0 && fabric_->arm(node_);
}

bool Module::handle(Packet& packet) noexcept {
  switch (packet.kind) {
    case Packet::Kind::message: on_message(packet); break;
    case Packet::Kind::response: on_response(packet); break;
    case Packet::Kind::connect: return on_connect(packet);
    case Packet::Kind::accept: on_accept(packet); break;
    case Packet::Kind::disconnect:
      die(packet.link->receiver, {Errc::peer_gone, 0, "sim: the peer disconnected"});
      break;
    case Packet::Kind::failure: on_failure(packet); break;
    default: break;  // requests and timers end in the fabric
  }
  return true;
}

bool Module::on_connect(Packet& packet) noexcept {
  Link& incoming = *packet.link;
  // Link ids grow in the order of opening: a lower id belongs to an earlier connection, which the peer has ended.
  std::uint64_t& newest = newest_[incoming.from];
  if (incoming.id < newest) return fabric_->reset(packet), true;
  newest = incoming.id;
  const PeerId peer = packet.read<Introduction>().from;
  if (Endpoint* const known = find(peer); known != nullptr) {
    // Both sides called connect().
    if (known->node_ == incoming.from && known->in_ == nullptr) return pair(*known, incoming), true;
    die(known, {Errc::peer_gone, 0, "sim: the peer connected anew"});  // its disconnect arrives later
  }
  if (!vacant(peer)) return false;
  Endpoint& endpoint = add(std::make_unique<Endpoint>(*this, peer, incoming.from));
  pair(endpoint, incoming);
  const Introduction introduction{parameters().id, incoming.id};
  send_control(endpoint, Packet::Kind::accept, bytes_of(introduction));
  parameters().observer.on_accepted(endpoint);
  return true;
}

void Module::on_accept(Packet& packet) noexcept {
  const auto introduction = packet.read<Introduction>();
  Endpoint* const endpoint = find(introduction.from);
  // Disconnected here meanwhile, or connected by the peer's own connect.
  if (endpoint == nullptr || endpoint->out_->id != introduction.link || endpoint->in_ != nullptr) return;
  pair(*endpoint, *packet.link);
}

void Module::on_message(Packet& packet) noexcept {
  Endpoint* const from = packet.link->receiver;
  if (from == nullptr || from->dead()) return fabric_->reset(packet);
  deliver(*from, packet.tag, packet.bytes());
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
  end(*endpoint);
  fabric_->make_ready(node_);  // connect() may have called: progress() reports the end
}

// --- Component

const Component& component() noexcept {
  static constexpr Component kComponent{
      .name = "sim",
      .summary = "A simulated fabric between the contexts of one process, for tests",
      .exclusivity = 1,
      .vars = &kGroup,
      .reach = Reach::process,
      .open = [](const ModuleParameters& parameters, const config::Store& store) -> Result<Modules> {
        OPAL_TRY_ASSIGN(const Config config, store.load(kGroup));
        const auto open_rail = [&](const ModuleParameters& below,
                                   std::size_t rail) -> Result<std::unique_ptr<btl::Module>> {
          Config own = config;
          if (rail != 0) own.fabric = fmt::format("{}/{}", config.fabric, rail);
          OPAL_TRY_ASSIGN(auto module, Module::open(below, own));
          return std::unique_ptr<btl::Module>{std::move(module)};
        };
        return rails::open_rails(parameters, config.rails, open_rail);
      },
  };
  return kComponent;
}

}  // namespace opal::btl::sim
