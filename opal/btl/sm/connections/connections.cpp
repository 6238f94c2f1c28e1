// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/sm/connections/connections.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace opal::btl::sm {
namespace {

/// True when the connection has ended and on_failed is still to be called.
bool is_ending(const Endpoint& endpoint) noexcept {
  return (endpoint.ending.draining || endpoint.dead()) && !endpoint.ending.reported;
}

}  // namespace

std::string Endpoint::describe() const {
  const SendGuard guard{*this};
  return fmt::format("shared memory; {}; fast box {}", link_->copy.why(), sending.fast_box.on() ? "in use" : "not yet");
}

Result<void> Connections::start(const LocalSide& local, int doorbell) {
  const PeerId door = PeerId::random();
  OPAL_TRY_ASSIGN(address_, Address::here(module_.parameters().id, door));
  OPAL_TRY_ASSIGN(manager_, ConnectionManager::start(local, door, doorbell));
  return {};
}

Result<btl::Endpoint*> Connections::connect(const PeerId& peer, ByteSpan address) {
  OPAL_TRY_ASSIGN(const Address theirs, Address::decode(address));
  if (theirs.peer != peer) return Error{Errc::protocol, 0, "sm address: of another peer"};
  if (const auto known = by_peer_.find(peer); known != by_peer_.end()) return known->second;
  const auto held = std::ranges::find_if(held_, [&](const ConnectionEvent& event) {
    return event.link != nullptr && event.link->peer == peer && !event.link->hung_up->load(std::memory_order_acquire);
  });
  if (held != held_.end()) {  // the caller gets it here, so it needs no report
    std::unique_ptr<Link> link = std::move(held->link);
    held_.erase(held);
    return &add(std::move(link));
  }
  if (peer == module_.parameters().id) return Error{Errc::unreachable, 0, "sm: that is this Context itself"};
  if (theirs.host != address_.host) {
    return Error{Errc::unreachable, 0, "sm: the peer is on another host, or in another network namespace"};
  }
  // Numbers of different user namespaces cannot be compared; the kernel translates them once the socket is connected.
  if (theirs.user_namespace == address_.user_namespace && theirs.user_id != address_.user_id) {
    return Error{Errc::unreachable, 0, "sm: the peer belongs to another user", theirs.user_id};
  }
  OPAL_TRY_ASSIGN(std::unique_ptr<Link> link, manager_->connect(theirs));
  return &add(std::move(link));
}

Endpoint& Connections::add(std::unique_ptr<Link> link) {
  endpoints_.push_back(std::make_unique<Endpoint>(module_, std::move(link), config_.fbox_threshold));
  Endpoint& endpoint = *endpoints_.back();
  const std::uint64_t id = endpoint.link().id;
  if (SharedMechanism* shared = endpoint.memory().shared; shared != nullptr) {
    shared->on_need([this, id](std::uint32_t number) { manager_->ask(id, HelloKind::ask_pool, number, {}); });
  }
  if (CopyMechanism* const knem = endpoint.memory().copy.find(MechanismKind::knem); knem != nullptr) {
    static_cast<KnemMechanism*>(knem)->on_need(
        [this, id](const SoftwareHandle& region) { manager_->ask(id, HelloKind::ask_cookie, 0, region); });
  }
  by_index_[endpoint.link().index] = &endpoint;
  by_peer_.try_emplace(endpoint.peer(), &endpoint);  // a held connection may have a successor already
  receiver_.add(endpoint);
  return endpoint;
}

std::size_t Connections::take_events() noexcept {
  std::vector<ConnectionEvent> events = manager_->take_events();
  for (ConnectionEvent& event : events) handle(event);
  return events.size();
}

/// True for the connection of a peer that has come back, until on_failed was called for the earlier ones, and for the
/// later events of that connection.
bool Connections::must_wait(const ConnectionEvent& event) const noexcept {
  const auto is_of_peer = [&](const PeerId& peer) { return event.link != nullptr && event.link->peer == peer; };
  return std::ranges::any_of(endpoints_,
                             [&](const auto& earlier) { return is_of_peer(earlier->peer()) && is_ending(*earlier); }) ||
         std::ranges::any_of(held_, [&](const ConnectionEvent& held) {
           return held.id == event.id || (held.link != nullptr && is_of_peer(held.link->peer));
         });
}

void Connections::handle(ConnectionEvent& event) noexcept {
  using Kind = ConnectionEvent::Kind;
  if (event.kind == Kind::closed) {
    retired_.push_back({event.index, fifo().head() + fifo().slots()});
    deferred_work_ = true;
    return;
  }
  if (must_wait(event)) {
    held_.push_back(std::move(event));
    deferred_work_ = true;
    return;
  }
  if (event.kind == Kind::accepted) {
    module_.parameters().observer.on_accepted(add(std::move(event.link)));
    return;
  }
  auto* const endpoint = static_cast<Endpoint*>(by_index_[event.index]);
  if (endpoint == nullptr || endpoint->link().id != event.id) return;  // it has been disconnected
  if (event.kind == Kind::answer) {
    take_answer(*endpoint, event.answer);
  } else {
    begin_drain(*endpoint,
                {Errc::peer_gone, 0,
                 event.kind == Kind::died ? "sm: the peer's process has ended" : "sm: the peer has disconnected"});
  }
}

void Connections::handle_held() noexcept {
  for (ConnectionEvent& event : std::exchange(held_, {})) handle(event);
}

void Connections::take_new_peers(std::uint32_t index) noexcept {
  if (has_events()) (void)take_events();
  while (by_index_[index] == nullptr) {
    const auto held = std::ranges::find_if(
        held_, [&](const ConnectionEvent& event) { return event.link != nullptr && event.link->index == index; });
    if (held == held_.end()) return;
    // All messages of its earlier connections were before this item in the FIFO, or are in the earlier fast box.
    const PeerId peer = held->link->peer;
    for (std::size_t i = 0; i < endpoints_.size(); ++i) {
      Endpoint& earlier = *endpoints_[i];
      if (earlier.peer() == peer && is_ending(earlier)) end_drained(earlier);
    }
    handle_held();
  }
}

void Connections::take_answer(Endpoint& endpoint, ReceivedHello& answer) noexcept {
  const Hello& hello = answer.hello;
  RemoteMemory& memory = endpoint.memory();
  if (hello.kind == HelloKind::pool && memory.shared != nullptr) {
    memory.shared->take(PeerPool::attach(hello.pool, hello.pool_base, answer.file.get()));
  } else if (hello.kind == HelloKind::file && !endpoint.dead()) {
    user_.on_file(endpoint, answer);
  } else if (CopyMechanism* const knem = memory.copy.find(MechanismKind::knem);  // it may be removed meanwhile
             hello.kind == HelloKind::cookie && knem != nullptr) {
    static_cast<KnemMechanism*>(knem)->take({hello.region, hello.knem_cookie});
  }
}

void Connections::begin_drain(Endpoint& endpoint, const Error& why) noexcept {
  if (endpoint.ending.draining || endpoint.dead()) return;
  endpoint.ending.draining = true;
  endpoint.ending.why = why;
  endpoint.ending.last_item = fifo().head() + fifo().slots();
  draining_.push_back(&endpoint);
  deferred_work_ = true;
  forget_peer(endpoint);  // the next connect() to this peer makes a new connection
}

void Connections::forget_peer(const btl::Endpoint& endpoint) noexcept {
  if (const auto known = by_peer_.find(endpoint.peer()); known != by_peer_.end() && known->second == &endpoint) {
    by_peer_.erase(known);
  }
}

/// Everything that the peer has put into the FIFO has been received: its fast box is next, then the end.
void Connections::end_drained(Endpoint& endpoint) noexcept {
  receiver_.drain_fast_box(endpoint);
  fail(endpoint, endpoint.ending.why);
  report_failure(endpoint);
}

void Connections::report_failure(Endpoint& endpoint) noexcept {
  std::erase(failed_, &endpoint);
  manager_->close(endpoint.link().id);
  user_.end_operations(endpoint, endpoint.ending.why);
  endpoint.ending.reported = true;
  module_.parameters().observer.on_failed(endpoint, endpoint.ending.why);
}

void Connections::fail_with_send_lock(MessagePeer& peer, const Error& why) noexcept {
  if (peer.dead()) return;
  auto& endpoint = static_cast<Endpoint&>(peer);
  endpoint.end(why);
  endpoint.ending.why = why;
  failed_.push_back(&endpoint);
  deferred_work_ = true;
  forget_peer(endpoint);
}

std::size_t Connections::finish() noexcept {
  std::size_t count = 0;
  // Everything that a peer has put into the FIFO lies within one length of the FIFO from where it closed its end.
  const auto passed = [&](std::uint64_t position) { return fifo().empty() || fifo().head() >= position; };
  for (Endpoint* endpoint : std::exchange(draining_, {})) {
    if (endpoint->dead()) continue;
    if (!passed(endpoint->ending.last_item)) {
      draining_.push_back(endpoint);
      continue;
    }
    end_drained(*endpoint);
    ++count;
  }
  for (; !failed_.empty(); ++count) report_failure(*failed_.front());
  count += held_.size();
  handle_held();
  count -= held_.size();
  std::erase_if(retired_, [&](const RetiredIndex& retired) {
    if (!passed(retired.until)) return false;
    by_index_[retired.index] = nullptr;
    manager_->release_index(retired.index);
    return true;
  });
  return count;
}

void Connections::disconnect(Endpoint& endpoint) noexcept {
  manager_->close(endpoint.link().id);
  std::erase(draining_, &endpoint);
  std::erase(failed_, &endpoint);
  // From here on its messages are dropped.  The index is free when the peer has closed its end too.
  MessagePeer*& place = by_index_[endpoint.link().index];
  if (place == &endpoint) place = nullptr;
  const auto own = std::find_if(endpoints_.begin(), endpoints_.end(),
                                [&](const std::unique_ptr<Endpoint>& entry) { return entry.get() == &endpoint; });
  std::swap(*own, endpoints_.back());
  endpoints_.pop_back();
}

}  // namespace opal::btl::sm
