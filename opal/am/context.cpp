// SPDX-License-Identifier: Apache-2.0
// A Context's creation and destruction, its peers and its handlers.  Progress and waiting are in progress.cpp, memory
// is in region.cpp, the data path in endpoint.cpp.
#include "opal/am/context.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "opal/am/bootstrap/address.hpp"
#include "opal/am/components.hpp"
#include "opal/am/state.hpp"
#include "opal/am/transports/key.hpp"
#include "opal/btl/shared/rdma_emulation.hpp"
#include "opal/core/config/core_config.hpp"
#include "opal/core/log.hpp"
#include "opal/gpu/gpu.hpp"
#include "opal/memory/events/monitor.hpp"

namespace opal::am {
namespace {

Result<SecretChoice> secret_of(const Config& config, const Options& options) {
  if (options.secret) return SecretChoice{*options.secret, "given by the program", {}};
  return choose_secret(config.secret_file);
}

/// The transports of a Context.  Logs the components that are refused.
btl::Registry registry_of(const config::Store& store, const Options& options) {
  if (options.registry != nullptr) return *options.registry;
  Components components = find_components(store);
  for (const ComponentFile& file : components.files) {
    if (file.component == nullptr) log::once(log::Level::warn, file.path, "am", "{}: {}", file.path, file.refusal);
  }
  return std::move(components.registry);
}

}  // namespace

Result<std::unique_ptr<Context>> Context::open(const config::Store& store, const Options& options) {
  OPAL_TRY(config::apply_to_process(store));
  const btl::Registry registry = registry_of(store, options);
  OPAL_TRY(store.verify(config_groups(registry), kUpperPrefixes));
  OPAL_TRY_ASSIGN(const Config config, store.load(kGroup));
  OPAL_TRY_ASSIGN(const memory::Config memory_config, store.load(memory::kGroup));
  OPAL_TRY_ASSIGN(const gpu::Config gpu_config, store.load(gpu::kGroup));
  OPAL_TRY_ASSIGN(btl::RegistrationTable table, btl::RegistrationTable::create(config.registrations));

  OPAL_TRY_ASSIGN(SecretChoice secret, secret_of(config, options));

  memory::start_monitor(memory_config);  // before transports start threads: it is faster then
  gpu::start(gpu_config);
  auto state = std::make_unique<State>(config, options, std::move(table));
  state->registry = registry;
  state->secret = std::move(secret);
  if (gpu::active()) state->staged = std::make_unique<StagedTransfers>(gpu_config);
  OPAL_TRY_ASSIGN(state->waiter, Waiter::create());
  OPAL_TRY(btl::RdmaEmulation::install(state->handlers));
  OPAL_TRY(state->handlers.set(wire::kLargeOffer, btl::bind<&LargeReceives::on_offer>(state->receives, "large offer")));
  OPAL_TRY(state->handlers.set(wire::kLargeEnd, btl::bind<&LargeSends::on_end>(state->sends, "large end")));
  OPAL_TRY(state->open_transports(store));
  return std::unique_ptr<Context>{new Context{std::move(state)}};
}

Result<void> Context::State::open_transports(const config::Store& store) {
  OPAL_TRY_ASSIGN(const TransportFilter filter, TransportFilter::parse(config.transports, registry));
  OPAL_TRY_ASSIGN(const rcache::Config cache_config, store.load(rcache::kGroup));
  const btl::ModuleParameters parameters{
      .id = id,
      .handlers = handlers,
      .registrations = registrations,
      .observer = *this,
      .secret = secret.secret,
      .cores_shared = config.ranks_per_core > 1,
      .connect_timeout = config.connect_timeout,
  };
  transports = Transports::open(parameters, store, registry, filter);
  if (transports.modules.empty()) {
    for (const Refused& refused : transports.refused) {
      log::error("am", "transport {}: {}", refused.transport, refused.reason);
    }
    return Error{Errc::unreachable, 0, "Context::open: no transport is usable"};
  }
  for (const auto& module : transports.modules) {
    for (std::size_t i = 0; i < batches; ++i) module->begin_batch();
  }
  for (const auto& module : transports.modules) {
    OPAL_TRY(waiter->add(module->wait_fd()));
    auto& cache = registration_caches.emplace_back(
        std::make_unique<RegistrationCache>(*module, RegistrationCache::monitored(cache_config)));
    module->use_registrations(&cache->cache());
  }
  address = encode_address();
  return {};
}

Context::Context(std::unique_ptr<State> state) noexcept
    : polls_before_clock_(state->config.ranks_per_core > 1 ? 4 : 200), state_(std::move(state)) {
  State& own = *state_;
  own.context = this;
  // Made now: in a forked child the heap may be inconsistent.
  own.parents_transport = std::make_unique<NoTransport>(
      btl::ModuleParameters{own.id, own.handlers, own.registrations, own, own.secret.secret}, 0);
  own.nowhere = &own.parents_transport->add_dead(kInherited);
  own.follow_forks();
}

namespace {
/// Logs the statistics of a cache in one line (OPAL_LOG=info).
void log_cache(const char* what, const rcache::Statistics& cache) {
  if (cache.hits + cache.misses + cache.failures == 0) return;
  log::info("am", "{}: {} hits, {} misses, {} evictions, {} invalidations, {} failures; {} with {} bytes at the end",
            what, cache.hits, cache.misses, cache.evictions, cache.invalidations, cache.failures,
            cache.registered.count, cache.registered.bytes);
}
}  // namespace

Context::~Context() {
  state_->unfollow_forks();
  if (state_->inherited) {
    state_.release()->keep();
    return;
  }
  if (log::enabled(log::Level::info)) {
    log_cache("registrations of memory", registration_statistics());
    log_cache("mappings of peers' GPU memory", remote_memory_statistics());
  }
  while (!state_->former.empty()) disconnect(*state_->former.begin()->second);
  while (!state_->endpoints.empty()) disconnect(*state_->endpoints.begin()->second);
  state_->bootstrap.reset();
  state_->registration_caches.clear();
  state_->transports.modules.clear();
}

const PeerId& Context::id() const noexcept { return state_->id; }

bool Context::inherited() const noexcept { return state_->inherited; }

Lock& Context::lock() noexcept { return state_->lock; }

ByteSpan Context::address() const noexcept {
  state_->address_given = true;
  return state_->address;
}

std::vector<TransportState> Context::transports() const {
  const Lock::Guard guard{state_->lock};
  std::vector<TransportState> list;
  for (const auto& module : state_->transports.modules) list.push_back({module->attributes().transport, true, {}});
  for (const Refused& refused : state_->transports.refused) list.push_back({refused.transport, false, refused.reason});
  return list;
}

std::vector<std::byte> Context::State::encode_address() const {
  Address own{id, {}};
  for (const auto& module : transports.modules) {
    const btl::Attributes& attributes = module->attributes();
    own.transports.push_back({attributes.transport, module->address()});
    if (!attributes.also.empty()) own.transports.push_back({attributes.also, module->address()});
  }
  return encode(own);
}

Endpoint& Context::State::add(const PeerId& peer, btl::Endpoint& route, std::string explanation) {
  auto endpoint = std::unique_ptr<Endpoint>{new Endpoint{*context, peer, lock}};
  endpoint->add_route(route, true);
  endpoint->explanation_ = std::move(explanation);
  if (!lost(*endpoint)) endpoint->registrations_ = &registrations_of(route.module());
  return *(endpoints[peer] = std::move(endpoint));
}

RegistrationCache& Context::State::registrations_of(const btl::Module& module) noexcept {
  return **std::ranges::find_if(registration_caches, [&](const auto& entry) { return &entry->module() == &module; });
}

namespace {

/// Sets `advancing` while a callback of the program may run, so that disconnect() is deferred.
class Callback {
 public:
  explicit Callback(bool& advancing) noexcept : advancing_(advancing), outer_(std::exchange(advancing, true)) {}
  ~Callback() { advancing_ = outer_; }
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;

 private:
  bool& advancing_;
  const bool outer_;
};

}  // namespace

void Context::State::on_accepted(btl::Endpoint& route) noexcept {
  const Callback callback{advancing};
  move_to_former_if_dead(route.peer());
  if (const auto known = endpoints.find(route.peer()); known != endpoints.end()) {
    Endpoint& endpoint = *known->second;
    endpoint.add_route(route, false);
    if (!lost(endpoint)) return;
    reroute(endpoint, route);  // the peer restarted
    if (options.observer != nullptr) options.observer->on_peer_connected(endpoint);
    return;
  }
  Endpoint& endpoint =
      add(route.peer(), route,
          fmt::format("{}: taken, the peer chose it: {}\n", route.module().attributes().transport, route.describe()));
  if (options.observer != nullptr) options.observer->on_peer_connected(endpoint);
}

void Context::State::move_to_former_if_dead(const PeerId& peer) {
  const auto known = endpoints.find(peer);
  if (known == endpoints.end() || !known->second->route_->dead()) return;
  const Endpoint* const key = known->second.get();
  former.emplace(key, std::move(known->second));
  endpoints.erase(known);
}

void Context::State::on_failed(btl::Endpoint& route, const Error& why) noexcept {
  auto* endpoint = static_cast<Endpoint*>(route.upper);
  if (endpoint == nullptr) return;
  const Callback callback{advancing};
  if (&route.module() != no_transport.get()) {
    dead_routes.push_back(&route);
    tidy = true;
  }
  receives.route_gone(route);
  sends.route_gone(route, why);
  // A route that is not in use failed: the program is not told.
  if (endpoint->route_ != &route) return;
  if (staged != nullptr) staged->abandon(route, why);
  if (quiesce.emptied) return set_aside(*endpoint, why);
  endpoint->drop_pending();
  std::erase(pending, endpoint);
  endpoint->end_operations(why);
  if (endpoint->leaving_) return;
  log::debug("am", "peer {} failed: {}", to_string(endpoint->peer()), to_string(why));
  if (options.observer != nullptr) options.observer->on_peer_failed(*endpoint, why);
}

void Context::State::release_dead_routes() noexcept {
  for (std::size_t i = 0; i < dead_routes.size();) {
    btl::Endpoint& route = *dead_routes[i];
    if (route.fragments() != 0) {  // fragments are in the route's memory
      ++i;
      continue;
    }
    dead_routes.erase(dead_routes.begin() + static_cast<std::ptrdiff_t>(i));
    Endpoint& endpoint = *static_cast<Endpoint*>(route.upper);
    if (endpoint.route_ == &route) {
      if (no_transport == nullptr) no_transport = make_no_transport();
      endpoint.add_route(no_transport->add(route), true);
      endpoint.registrations_ = nullptr;
    }
    std::erase(endpoint.routes_, &route);
    route.module().disconnect(route);
  }
}

btl::Endpoint* Context::State::find_route(const Address& peer, std::string& explanation) {
  for (const Refused& refused : transports.refused) {
    explanation += fmt::format("{}: not opened: {}\n", refused.transport, refused.reason);
  }
  btl::Endpoint* taken = nullptr;
  for (const auto& module : transports.modules) {
    const std::string_view name = module->attributes().transport;
    if (taken != nullptr) {
      explanation += fmt::format("{}: not needed, lower exclusivity\n", name);
      continue;
    }
    const auto theirs = std::ranges::find_if(peer.transports, [&](const TransportAddress& entry) {
      return entry.transport == name || entry.transport == module->attributes().also;
    });
    if (theirs == peer.transports.end()) {
      explanation += fmt::format("{}: the peer does not have it\n", name);
      continue;
    }
    if (auto route = module->connect(peer.id, theirs->address)) {
      taken = *route;
      explanation.insert(
          0, fmt::format("{}: taken: {}\n", name, taken->describe()));  // first, since readers look for it most
    } else {
      explanation += fmt::format("{}: refused: {}\n", name, to_string(route.error()));
    }
  }
  return taken;
}

Result<Endpoint*> Context::State::find(const PeerId& peer) noexcept {
  if (!advancing) disconnect_leaving();
  const auto found = endpoints.find(peer);
  if (found == endpoints.end()) return nullptr;
  Endpoint* const known = found->second.get();
  if (known->leaving_) {
    return Error{Errc::busy, 0, "Context::connect: the disconnect() of the peer's endpoint ends with progress()"};
  }
  if (known->route_->dead()) {
    return Error{Errc::peer_gone, 0, "Context::connect: that peer has failed; disconnect its endpoint first"};
  }
  return known;
}

Result<Endpoint*> Context::connect_async(ByteSpan address) {
  const Lock::Guard guard{state_->lock};
  if (state_->inherited) return kInherited;
  OPAL_TRY_ASSIGN(const Address peer, decode(address));
  OPAL_TRY_ASSIGN(Endpoint * known, state_->find(peer.id));
  if (known != nullptr && !state_->lost(*known)) return known;
  if (known == nullptr) {
    if (state_->no_transport == nullptr) state_->no_transport = state_->make_no_transport();
    known = &state_->add(peer.id, state_->no_transport->add(peer.id), "connecting\n");
  }
  std::erase_if(state_->connecting, [&](const Connecting& each) { return each.endpoint == known; });
  state_->connecting.push_back({known, {address.begin(), address.end()}});
  state_->tidy = true;
  state_->waiter->wake_others();  // no descriptor becomes readable: a sleeping thread has to choose the transport
  return known;
}

std::size_t Context::State::connect_waiting() noexcept {
  const std::vector<Connecting> chosen = std::exchange(connecting, {});
  for (const Connecting& next : chosen) {
    Endpoint& endpoint = *next.endpoint;
    if (!lost(endpoint)) continue;  // the peer has connected to this Context meanwhile
    const auto peer = decode(next.address);
    endpoint.explanation_.clear();
    btl::Endpoint* const taken = peer ? find_route(*peer, endpoint.explanation_) : nullptr;
    if (taken == nullptr) {
      log::warn("am", "no transport reaches peer {}:\n{}", to_string(endpoint.peer()), endpoint.explanation_);
      no_transport->fail(*endpoint.route_,
                         {Errc::unreachable, 0, "Context::connect_async: no transport reaches the peer"});
      continue;
    }
    if (std::ranges::find(endpoint.routes_, taken) == endpoint.routes_.end()) {
      endpoint.add_route(*taken, false);
    }
    if (!lost(endpoint)) continue;
    reroute(endpoint, *taken);
    const Callback callback{advancing};
    if (options.observer != nullptr) options.observer->on_peer_connected(endpoint);
  }
  return chosen.size();
}

Result<Endpoint*> Context::connect(ByteSpan address) {
  const Lock::Guard guard{state_->lock};
  if (state_->inherited) return kInherited;
  OPAL_TRY_ASSIGN(const Address peer, decode(address));
  OPAL_TRY_ASSIGN(Endpoint* const known, state_->find(peer.id));
  if (known != nullptr && !state_->lost(*known)) return known;
  std::string explanation;
  btl::Endpoint* const taken = state_->find_route(peer, explanation);
  if (taken == nullptr) {
    log::error("am", "no transport reaches peer {}:\n{}", to_string(peer.id), explanation);
    return Error{Errc::unreachable, 0, "Context::connect: no transport reaches the peer"};
  }
  if (known == nullptr) return &state_->add(peer.id, *taken, std::move(explanation));
  known->add_route(*taken, false);
  known->explanation_ = std::move(explanation);
  state_->reroute(*known, *taken);
  return known;
}

void Context::disconnect(Endpoint& endpoint) noexcept {
  const Lock::Guard guard{state_->lock};
  if (state_->inherited) return;
  if (state_->advancing) {
    if (std::exchange(endpoint.leaving_, true)) return;
    state_->leaving.push_back(&endpoint);
    state_->tidy = true;
    return;
  }
  state_->disconnect(endpoint);
  state_->disconnect_leaving();
}

void Context::State::disconnect(Endpoint& endpoint) noexcept {
  const Callback callback{advancing};
  constexpr Error kDisconnected{Errc::canceled, 0, "am: disconnected"};
  endpoint.leaving_ = true;
  std::erase(leaving, &endpoint);
  std::erase_if(connecting, [&](const Connecting& each) { return each.endpoint == &endpoint; });
  std::erase(pending, &endpoint);
  endpoint.end_operations(kDisconnected);
  if (staged != nullptr) staged->disconnecting(*endpoint.route_, kDisconnected);
  const std::vector<btl::Endpoint*> routes = endpoint.routes_;
  for (btl::Endpoint* route : routes) {
    receives.leave(*route);
    std::erase(dead_routes, route);
    route->module().disconnect(*route);
    receives.route_gone(*route);
    sends.route_gone(*route, kDisconnected);
  }
  if (staged != nullptr) staged->disconnected();
  if (former.erase(&endpoint) == 0) endpoints.erase(endpoint.peer());
  waiter->wake_others();  // completions have run, perhaps outside of progress()
}

std::size_t Context::State::disconnect_leaving() noexcept {
  std::size_t count = 0;
  for (; !leaving.empty(); ++count) disconnect(*leaving.back());
  return count;
}

Result<std::string> Context::listen(std::string_view host_port) {
  const Lock::Guard guard{state_->lock};
  if (state_->inherited) return kInherited;
  if (state_->bootstrap != nullptr) return Error{Errc::invalid_argument, 0, "Context::listen: listening already"};
  OPAL_TRY(state_->require_shared_secret());
  OPAL_TRY_ASSIGN(state_->bootstrap, Bootstrap::listen(host_port, state_->secret.secret, *state_->waiter));
  if (!state_->address_given) state_->listen_only_at(state_->bootstrap->address());
  log::info("am", "listening at {}; source of the secret: {}", state_->bootstrap->where(), state_->secret.source);
  return state_->bootstrap->where();
}

Result<void> Context::State::require_shared_secret() const {
  if (!secret.unshared) return {};
  log::error("am", "other processes cannot have the secret; its source: {}", secret.source);
  return *secret.unshared;
}

void Context::State::listen_only_at(const sockaddr_storage& where) {
  for (const auto& module : transports.modules) {
    if (const auto done = module->listen_only_at(reinterpret_cast<const sockaddr&>(where)); !done) {
      log::warn("am", "{} still listens at every address: {}", module->attributes().transport, to_string(done.error()));
    }
  }
  address = encode_address();
}

Result<Endpoint*> Context::connect_to(std::string_view host_port, std::chrono::milliseconds timeout) {
  if (inherited()) return kInherited;
  OPAL_TRY(state_->require_shared_secret());
  const auto peer_address = exchange_addresses(host_port, state_->secret.secret, address(), timeout);
  if (!peer_address) {
    log::warn("am", "connect_to {}: {}", host_port, to_string(peer_address.error()));
    return peer_address.error();
  }
  return connect(*peer_address);
}

Result<void> Context::set_handler(Tag tag, const btl::Handler& handler) {
  const Lock::Guard guard{state_->lock};
  return state_->handlers.set(tag, handler);
}

Result<void> Context::set_handler(Tag tag, const btl::Handler& handler, const BufferSource& source) {
  if (source.allocate == nullptr)
    return Error{Errc::invalid_argument, 0, "set_handler: the BufferSource has no allocate function", tag};
  const Lock::Guard guard{state_->lock};
  OPAL_TRY(state_->handlers.set(tag, handler));
  state_->receives.set_source(tag, source);
  return {};
}

void Context::clear_handler(Tag tag) noexcept {
  const Lock::Guard guard{state_->lock};
  state_->receives.clear_source(tag);
  state_->handlers.clear(tag);
}

}  // namespace opal::am
