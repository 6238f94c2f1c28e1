// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a Context: queued messages stay in its queues, the modules complete messages and operations in flight.
#include <algorithm>

#include "opal/am/state.hpp"

namespace opal::am {

void Context::State::hold(Endpoint& endpoint) {
  if (!endpoint.has_pending()) pending.push_back(&endpoint);
  retry = true;
  Endpoint::Pending& queue = endpoint.make_pending();
  if (queue.held) return;
  queue.held = true;
  queue.ahead = queue.messages.size();
}

void Context::quiesce(std::uint64_t round) {
  const Lock::Guard guard{state_->lock};
  if (state_->inherited) return;
  state_->quiesce = {.active = true, .round = round};
  for (const auto& [peer, endpoint] : state_->endpoints) {
    if (!endpoint->route_->dead()) state_->hold(*endpoint);
  }
}

bool Context::quiet() noexcept {
  const Lock::Guard guard{state_->lock};
  Quiesce& quiesce = state_->quiesce;
  quiesce.quiet = false;
  if (!quiesce.active || state_->inherited) return false;
  for (const auto& [peer, endpoint] : state_->endpoints) {
    if (endpoint->route_->dead()) continue;
    state_->hold(*endpoint);  // it may have connected or reconnected since quiesce()
    if (endpoint->pending_->ahead > 0) return false;
  }
  if (!state_->sends.idle() || !state_->receives.idle() || !state_->queueing.empty()) return false;
  // Only now may the modules put their markers after the last message.
  bool all = true;
  for (const auto& module : state_->transports.modules) {
    module->quiesce(quiesce.round);
    all = module->quiet() && all;
  }
  return quiesce.quiet = all;
}

Result<void> Context::checkpoint() noexcept {
  const Lock::Guard guard{state_->lock};
  if (!quiet()) return Error{Errc::busy, 0, "Context::checkpoint: not quiet"};
  Result<void> all;
  for (const auto& module : state_->transports.modules) {
    if (auto done = module->checkpoint(); !done) all = done;
  }
  for (const auto& registrations : state_->registration_caches) {  // modules handle only the caches that they use
    if (RegistrationCache* const pieces = registrations->in_pieces(); pieces != nullptr) {
      pieces->cache().quiesce();
      if (auto done = pieces->cache().checkpoint(); !done) all = done;
    }
  }
  state_->quiesce.emptied = static_cast<bool>(all);
  return all;
}

void Context::resume() noexcept {
  const Lock::Guard guard{state_->lock};
  state_->quiesce = {};
  if (state_->no_transport != nullptr) state_->no_transport->give_up();
  for (const auto& module : state_->transports.modules) module->resume();
  for (const auto& registrations : state_->registration_caches) {
    if (RegistrationCache* const pieces = registrations->in_pieces(); pieces != nullptr) pieces->cache().resume();
  }
  for (Endpoint* endpoint : state_->pending) endpoint->pending_->held = false;
  state_->waiter->wake_others();  // no descriptor becomes readable for what was held back
}

bool Context::State::lost(const Endpoint& endpoint) const noexcept {
  return &endpoint.route_->module() == no_transport.get();
}

std::unique_ptr<NoTransport> Context::State::make_no_transport() {
  std::size_t max_send = SIZE_MAX;
  for (const auto& module : transports.modules) max_send = std::min(max_send, module->attributes().max_send);
  return std::make_unique<NoTransport>(btl::ModuleParameters{id, handlers, registrations, *this, secret.secret},
                                       max_send);
}

/// The peer may only be restarting: its queued messages stay until it reconnects or resume() gives it up.
void Context::State::set_aside(Endpoint& endpoint, const Error& why) {
  if (no_transport == nullptr) no_transport = make_no_transport();
  btl::Endpoint& nowhere = no_transport->add_gone(*endpoint.route_, why);
  endpoint.add_route(nowhere, true);
  endpoint.registrations_ = nullptr;
}

void Context::State::reroute(Endpoint& endpoint, btl::Endpoint& route) noexcept {
  btl::Endpoint& before = *endpoint.route_;
  const bool was_lost = lost(endpoint);
  endpoint.take_route(route);  // before the old route is destroyed: another thread may be about to send by it
  if (was_lost) {
    std::erase(endpoint.routes_, &before);
    no_transport->disconnect(before);
  }
  endpoint.registrations_ = &registrations_of(route.module());
}

/// Keeps the caches, empty and quiesced, until the Context ends: another thread may be searching one without the lock.
void Context::State::retire_registration_caches() {
  for (auto& registrations : registration_caches) {
    registrations->retire();
    retired_registration_caches.push_back(std::move(registrations));
  }
  registration_caches.clear();
}

Result<void> Context::restart(const config::Store& store) {
  if (state_->inherited && state_->quiesce.emptied) state_->take_over();
  const Lock::Guard guard{state_->lock};
  State& state = *state_;
  if (state.advancing) return Error{Errc::busy, 0, "Context::restart: not from inside a handler or completion"};
  if (!state.quiesce.emptied) return Error{Errc::busy, 0, "Context::restart: only between checkpoint() and resume()"};
  // Destroys and recreates everything that an image does not restore: routes, transports, descriptors.
  auto no_transport = state.make_no_transport();
  state.for_each_endpoint([&](Endpoint& endpoint) {
    btl::Endpoint& nowhere = no_transport->add(*endpoint.route_);
    endpoint.routes_.clear();
    endpoint.add_route(nowhere, true);
    endpoint.registrations_ = nullptr;
  });
  state.dead_routes.clear();
  state.connecting.clear();  // their peers' addresses change
  state.leave_regions();
  state.bootstrap.reset();
  state.retire_registration_caches();
  state.transports = {};
  state.no_transport = std::move(no_transport);
  OPAL_TRY(state.registrations.renew());
  OPAL_TRY(state.waiter->renew());
  OPAL_TRY(state.open_transports(store));
  return state.enter_regions();
}

}  // namespace opal::am
