// SPDX-License-Identifier: Apache-2.0
// Opening, peers, messages, registrations and progress; puts and gets are in transfers.cpp.
#include "opal/btl/rails/module.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "opal/btl/shared/rdma_emulation.hpp"
#include "opal/btl/shared/registrations/claims.hpp"
#include "opal/core/log.hpp"

namespace opal::btl::rails {
namespace {

using Addresses = std::vector<std::vector<std::byte>>;

constexpr std::chrono::milliseconds kLeaveTime{2'000};  // time limit for a disconnected endpoint to send its messages

Result<Addresses> decode_address(ByteSpan bytes) {
  wire::AddressHead head{};
  if (!read_object(bytes, head) || head.magic != wire::kMagic) {
    return Error{Errc::protocol, 0, "rails: not an address of rails (is the number of rails set there?)", bytes.size()};
  }
  if (head.version != wire::kVersion) {
    return Error{Errc::version_mismatch, 0, "rails: address made by another version of OPAL", head.version};
  }
  if (head.count == 0 || head.count > kMostRails) return Error{Errc::protocol, 0, "rails: garbled address", head.count};
  bytes = bytes.subspan(sizeof head);
  Addresses addresses;
  for (std::uint16_t i = 0; i < head.count; ++i) {
    std::uint16_t size = 0;
    if (!read_object(bytes, size) || bytes.size() - sizeof size < size) {
      return Error{Errc::protocol, 0, "rails: truncated address", i};
    }
    const ByteSpan one = bytes.subspan(sizeof size, size);
    addresses.emplace_back(one.begin(), one.end());
    bytes = bytes.subspan(sizeof size + size);
  }
  return addresses;
}

std::vector<std::byte> encode_address(const std::vector<std::unique_ptr<btl::Module>>& modules) {
  std::vector<std::byte> bytes;
  const auto append = [&](ByteSpan more) {
    const std::size_t at = bytes.size();
    bytes.resize(at + more.size());
    std::copy(more.begin(), more.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
  };
  const wire::AddressHead head{wire::kMagic, wire::kVersion, static_cast<std::uint16_t>(modules.size())};
  append(bytes_of(head));
  for (const auto& module : modules) {
    const auto size = static_cast<std::uint16_t>(module->address().size());
    append(bytes_of(size));
    append(module->address());
  }
  return bytes;
}

Attributes joined(const std::vector<std::unique_ptr<btl::Module>>& modules) {
  Attributes attributes = modules.front()->attributes();
  for (std::size_t i = 1; i < modules.size(); ++i) {
    const Attributes& other = modules[i]->attributes();
    attributes.max_send = std::min(attributes.max_send, other.max_send);
    attributes.eager = std::min(attributes.eager, other.eager);
  }
  attributes.max_send -= sizeof(wire::Envelope);
  attributes.eager = std::min(attributes.eager, attributes.max_send);
  attributes.own_handles = true;
  attributes.gpu_memory = false;
  return attributes;
}

/// True for errors of a registration that have the caller as their cause (the memory, or a limit), not the rail.
bool is_the_callers(const Error& why) noexcept {
  return why.code == Errc::limit_reached || why.code == Errc::no_memory || why.code == Errc::invalid_argument ||
         why.code == Errc::permission;
}

}  // namespace

Result<std::unique_ptr<Module>> Module::open(const ModuleParameters& parameters, std::size_t count,
                                             const Opener& opener) {
  OPAL_TRY_ASSIGN(Waiting waiting, Waiting::create());
  std::unique_ptr<Module> module{new Module{parameters, std::move(waiting)}};
  OPAL_TRY(module->open_below(count, opener));
  return module;
}

Result<void> Module::open_below(std::size_t count, const Opener& opener) {
  OPAL_TRY(RdmaEmulation::install(handlers_));
  OPAL_TRY(handlers_.set(wire::kTag, bind<&Module::on_message>(*this, "rails")));
  const ModuleParameters inner{parameters().id, handlers_, parameters().registrations, *this, parameters().secret};
  for (std::size_t i = 0; i < std::min(count, kMostRails); ++i) {
    auto opened = opener(inner, i);
    if (!opened && i == 0) return opened.error();
    if (!opened) {
      log::warn("btl.rails", "rail {} and the later ones are left out: {}", i, opal::to_string(opened.error()));
      break;
    }
    OPAL_TRY(waiting_.watch((*opened)->wait_fd()));
    modules_.push_back(std::move(*opened));
  }
  set_attributes(joined(modules_));
  address_ = encode_address(modules_);
  return {};
}

void Module::close_in_child() noexcept {
  for (const auto& module : modules_) module->leave_to_parent();
  waiting_.close_in_child();
}

Module::~Module() {
  closing_ = true;
  end_all();
  if (inherited()) return;
  while (!leaving().empty()) (void)progress(1);
  modules_.clear();  // their endpoints may complete pieces: before the members that the completions use
}

Result<Modules> open_rails(const ModuleParameters& parameters, std::size_t count, const Module::Opener& opener) {
  return count <= 1 ? only(opener(parameters, 0)) : only(Module::open(parameters, count, opener));
}

// ---- Peers ------------------------------------------------------------------------------------------------------

Result<btl::Endpoint*> Module::connect(const PeerId& peer, ByteSpan address) {
  OPAL_TRY_ASSIGN(Addresses addresses, decode_address(address));
  if (Endpoint* const known = find(peer); known != nullptr) return known;
  // A rail knows one connection per peer, so a leaving endpoint of this peer gives up its connections.  The messages
  // that it has not sent are lost.
  for (const auto& former : leaving()) {
    if (former->peer() != peer || former->left) continue;
    for (Route& route : former->routes()) {
      if (route.below != nullptr) retire(*route.below);
      former->set_connection(route, nullptr);
    }
    std::erase(attention_, former.get());
    former->left = true;
  }
  auto created = std::make_unique<Endpoint>(*this, peer, modules_.size());
  created->addresses = std::move(addresses);
  if (auto connected = created->connect(); !connected) {
    std::erase(attention_, created.get());
    return connected.error();
  }
  return &add(std::move(created));
}

void Module::adopt(btl::Endpoint& below, Route& route) noexcept {
  if (auto* const incoming = static_cast<Route*>(below.upper); incoming != nullptr && incoming->owner == nullptr) {
    forget(*incoming);
  }
  below.upper = &route;
  route.owner->set_connection(route, &below);
}

void Module::forget(const Route& incoming) noexcept {
  std::erase_if(without_hello_, [&](const auto& one) { return one.get() == &incoming; });
}

void Module::retire(btl::Endpoint& below) noexcept {
  drop_held(below);
  below.upper = nullptr;
  retired_.push_back(&below);
}

bool Module::is_ending(const btl::Endpoint& below, const Route& wanted) const noexcept {
  const auto* const route = static_cast<const Route*>(below.upper);
  if (route != nullptr) return route->owner != nullptr && route->owner != wanted.owner;
  return std::ranges::find(retired_, &below) != retired_.end();
}

bool Module::has_other_route(const btl::Endpoint& below) const noexcept {
  const auto* const route = static_cast<const Route*>(below.upper);
  return route != nullptr && route->owner != nullptr && route->owner->has_other_route(*route);
}

void Module::on_accepted(btl::Endpoint& route) noexcept {
  auto incoming = std::make_unique<Route>();
  incoming->below = &route;
  while (modules_[incoming->rail].get() != &route.module()) ++incoming->rail;
  route.upper = incoming.get();
  without_hello_.push_back(std::move(incoming));
}

void Module::on_failed(btl::Endpoint& below, const Error& why) noexcept {
  auto* const route = static_cast<Route*>(below.upper);
  if (route == nullptr) return;  // retired
  retire(below);
  if (route->owner == nullptr) return forget(*route);
  route->owner->on_lost(*route, why);
}

void Module::settle_later(Endpoint& endpoint) noexcept {
  if (std::ranges::find(attention_, &endpoint) == attention_.end()) attention_.push_back(&endpoint);
}

void Module::on_hello(Route& route, ByteSpan message, std::uint32_t connection) noexcept {
  const ByteSpan bytes = message.subspan(sizeof(wire::Envelope));
  wire::Hello hello{};
  auto addresses = read_object(bytes, hello) ? decode_address(bytes.subspan(sizeof hello))
                                             : Result<Addresses>{Error{Errc::protocol, 0, "rails: truncated hello"}};
  if (!addresses || hello.from == 0) {
    log::warn("btl.rails", "peer {}: not a hello of rails", to_string(route.below->peer()));
    if (route.owner != nullptr) return route.owner->break_off({Errc::protocol, 0, "rails: bad hello"});
    retire(*route.below);
    return forget(route);
  }
  if (route.owner == nullptr) return enter(route, hello, connection, std::move(*addresses), message);
  Endpoint& endpoint = *route.owner;
  if ((endpoint.peer_session != 0 && endpoint.peer_session != hello.from) ||
      (hello.to != 0 && hello.to != endpoint.session)) {
    return endpoint.break_off({Errc::peer_gone, ECONNRESET, "rails: the peer has opened a new session"});
  }
  endpoint.peer_session = hello.from;
  route.peer_connection = connection;
  endpoint.on_hello_received(route);
}

void Module::enter(Route& incoming, const wire::Hello& hello, std::uint32_t connection, Addresses addresses,
                   ByteSpan message) noexcept {
  btl::Endpoint& below = *incoming.below;
  const std::uint32_t rail = incoming.rail;
  Endpoint* known = find(below.peer());
  if (known == nullptr && hello.to != 0) {
    for (const auto& former : leaving()) {
      if (!former->left && former->session == hello.to) known = former.get();
    }
  }
  const bool gone = hello.to != 0 && (known == nullptr || known->session != hello.to);
  if (gone || (known == nullptr && closing_)) {
    retire(below);  // the hello is for an endpoint that does not exist any more, or this module is closing
    return forget(incoming);
  }
  if (known != nullptr && known->peer_session != 0 && known->peer_session != hello.from) {
    known->break_off({Errc::peer_gone, ECONNRESET, "rails: the peer has opened a new session"});
    end(*known);
    known = nullptr;
  }
  const bool fresh = known == nullptr;
  if (fresh && !vacant(below.peer())) return hold(below, message);
  if (fresh) known = &add(std::make_unique<Endpoint>(*this, below.peer(), modules_.size()));
  if (known->addresses.empty()) known->addresses = std::move(addresses);
  Route& route = known->routes()[rail];
  if (route.below != nullptr && route.below != &below) retire(*route.below);
  adopt(below, route);
  route.peer_connection = connection;
  known->on_hello_received(route);
  known->peer_session = hello.from;
  settle_later(*known);
  if (!fresh) return;
  ++events_;
  parameters().observer.on_accepted(*known);
}

void Module::end(Endpoint& endpoint) noexcept {
  endpoint.end(endpoint.reason());
  ConnectedTransport::end(endpoint);
}

void Module::end_operations(Endpoint& endpoint, const Error& why) noexcept {
  endpoint.end(why);
  std::erase(attention_, &endpoint);
  for (Route& route : endpoint.routes()) {
    if (btl::Endpoint* const below = route.below; below != nullptr) {
      endpoint.set_connection(route, nullptr);
      drop_held(*below);
      below->upper = nullptr;
      below->module().disconnect(*below);
    }
  }
  striped_.abandon(endpoint, why);
  ConnectedTransport::end_operations(endpoint, why);
}

/// disconnect() calls end_operations() next: it marks the endpoint dead and disconnects its rails, since their
/// connections carry the operations.  If a message has not been sent, settle() connects a rail again, sends all
/// unconfirmed messages and a goodbye, until leave_until.
bool Module::leave(Endpoint& endpoint, const Error& /*why*/) noexcept {
  if (endpoint.dead() || endpoint.leave()) return false;
  endpoint.retry_rails();
  endpoint.leave_until = Deadline::after(kLeaveTime);
  return true;
}

// ---- Messages ---------------------------------------------------------------------------------------------------

void Module::hold(btl::Endpoint& below, ByteSpan message) {
  held_.emplace_back(&below, std::vector(message.begin(), message.end()));
}

void Module::drop_held(const btl::Endpoint& below) noexcept {
  std::erase_if(held_, [&](const auto& held) { return held.first == &below; });
}

void Module::take(btl::Endpoint& below, ByteSpan message) noexcept {
  auto* const route = static_cast<Route*>(below.upper);
  wire::Envelope envelope{};
  if (route == nullptr) return;
  const auto is_before = [&](const auto& held) { return held.first == &below; };
  if (std::ranges::any_of(held_, is_before)) return hold(below, message);
  if (!read_object(message, envelope)) {
    if (route->owner != nullptr) route->owner->break_off({Errc::protocol, 0, "rails: message without an envelope"});
    return;
  }
  if (envelope.kind == wire::Kind::hello) return on_hello(*route, message, envelope.connection);
  if (route->owner != nullptr) route->owner->on_message(*route, envelope, message.subspan(sizeof envelope));
}

void Module::deliver(Endpoint& from, Tag tag, ByteSpan data) noexcept {
  ++events_;
  Delivery delivery{from, tag, data};
  parameters().handlers.dispatch(delivery);
}

Post Module::send_inline(btl::Endpoint& to, Tag tag, ByteSpan header, ByteSpan payload) noexcept {
  if (!accepts(to, header.size() + payload.size())) return Post::failed;
  return static_cast<Endpoint&>(to).send(tag, header, payload);
}

void Module::begin_batch() noexcept {
  for (const auto& module : modules_) module->begin_batch();
}

void Module::end_batch() noexcept {
  for (const auto& module : modules_) module->end_batch();
}

// ---- One-sided --------------------------------------------------------------------------------------------------

Result<MemoryHandle> Module::register_memory(void* base, std::uint64_t size, Rights rights) {
  OPAL_TRY_ASSIGN(const MemoryHandle software, MessageTransport::register_memory(base, size, rights));
  // A rail whose device has failed gets no registration: the other rails move its share.
  std::vector<MemoryHandle> parts(modules_.size());
  std::size_t known = 0;
  Error why{};
  for (std::size_t i = 0; i < parts.size() && !is_the_callers(why); ++i) {
    if (auto part = modules_[i]->register_memory(base, size, rights); part) {
      parts[i] = *part;
      ++known;
    } else {
      why = part.error();
    }
  }
  auto joined = known == 0 || is_the_callers(why) ? Result<MemoryHandle>{why} : join(software, parts);
  if (joined) return joined;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].bytes().empty()) (void)modules_[i]->deregister_memory(parts[i]);
  }
  (void)MessageTransport::deregister_memory(software);
  return joined;
}

Result<void> Module::deregister_memory(const MemoryHandle& handle) {
  OPAL_TRY_ASSIGN(const MemoryHandle software, software_of(handle));
  Result<void> verdict = MessageTransport::deregister_memory(software);
  for (std::uint32_t i = 0; i < modules_.size(); ++i) {
    const auto part = part_of(handle, i);
    if (!part) continue;
    if (auto gone = modules_[i]->deregister_memory(*part); !gone && verdict) verdict = gone;
  }
  return verdict;
}

void Module::invalidate_memory(const MemoryHandle& handle) noexcept {
  if (const auto software = software_of(handle)) parameters().registrations.invalidate(*software);
  for (std::uint32_t i = 0; i < modules_.size(); ++i) {
    if (const auto part = part_of(handle, i)) modules_[i]->invalidate_memory(*part);
  }
}

void Module::invalidate_memory_part(const MemoryHandle& handle, memory::Range gone) noexcept {
  if (const auto software = software_of(handle)) parameters().registrations.invalidate_part(*software, gone);
  for (std::uint32_t i = 0; i < modules_.size(); ++i) {
    if (const auto part = part_of(handle, i)) modules_[i]->invalidate_memory_part(*part, gone);
  }
}

Post Module::transfer(RdmaOperation::Kind kind, btl::Endpoint& to, std::byte* local, const MemoryHandle* local_handle,
                      std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
                      Completion& completion) noexcept {
  if (to.dead()) return refuse(completion, to.error());
  if (pipelined().takes(remote)) {
    return pipelined().transfer(kind, to, local, local_handle, remote_address, remote, size, completion);
  }
  const auto software = software_of(remote);
  const auto claims = software ? SoftwareHandle::decode(*software) : Result<SoftwareHandle>{software.error()};
  if (!claims) return refuse(completion, claims.error());
  const auto right = check_claims(*claims, remote_address, size, right_for(kind));
  if (!right) return refuse(completion, right.error());
  completion.error = {};
  if (size == 0) return Post::done;
  return striped_.start(kind, static_cast<Endpoint&>(to), local, local_handle, remote_address, remote, size,
                        completion);
}

Post Module::atomic(btl::Endpoint& to, const AtomicRequest& request, Completion& completion) noexcept {
  if (to.dead()) return refuse(completion, to.error());
  if (pipelined().takes(*request.remote)) return emulation().atomic(to, request, completion);
  const auto software = software_of(*request.remote);
  if (!software) return refuse(completion, software.error());
  AtomicRequest plain = request;
  plain.remote = &*software;
  return emulation().atomic(to, plain, completion);
}

// ---- Progress ---------------------------------------------------------------------------------------------------

std::size_t Module::settle() noexcept {
  for (const auto& [below, message] : std::exchange(held_, {})) take(*below, message);
  for (btl::Endpoint* const below : std::exchange(retired_, {})) below->module().disconnect(*below);
  for (Endpoint* const endpoint : std::exchange(attention_, {})) {
    if (endpoint->dead()) continue;
    if (!endpoint->settle()) {
      end(*endpoint);
    } else if (endpoint->unsettled()) {
      settle_later(*endpoint);
    }
  }
  for (const auto& endpoint : leaving()) {
    if (endpoint->left || !(endpoint->leave() || endpoint->leave_until.expired())) continue;
    endpoint->left = true;
    end_operations(*endpoint, endpoint->error());
  }
  return striped_.progress();
}

std::size_t Module::receive(std::size_t budget) noexcept {
  events_ = 0;
  for (const auto& module : modules_) events_ += module->progress(budget);
  events_ += settle();
  return events_ + pipelined().progress();
}

bool Module::arm_wake_up() noexcept {
  const auto settled = [this] { return attention_.empty() && retired_.empty() && held_.empty() && striped_.idle(); };
  if (!settled() || !leaving().empty()) return false;
  for (const auto& module : modules_) {
    if (!module->arm()) return false;
  }
  if (!pipelined().idle() && pipelined().progress() != 0) return false;
  return settled();
}

}  // namespace opal::btl::rails
