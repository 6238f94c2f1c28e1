// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/sm/connections/connections.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace opal::btl::sm {

std::string Endpoint::describe() const {
  const SendGuard guard{*this};
  return fmt::format("shared memory; {}; fast box {}", link_->copy.why(), sending.fast_box.on() ? "in use" : "not yet");
}

Result<void> Connections::start(const LocalSide& local, int doorbell, const FifoConsumer& fifo) {
  fifo_ = &fifo;
  const PeerId door = PeerId::random();
  OPAL_TRY_ASSIGN(address_, Address::here(module_.parameters().id, door));
  OPAL_TRY_ASSIGN(manager_, ConnectionManager::start(local, door, doorbell));
  return {};
}

Result<btl::Endpoint*> Connections::connect(const PeerId& peer, ByteSpan address) {
  OPAL_TRY_ASSIGN(const Address theirs, Address::decode(address));
  if (theirs.peer != peer) return Error{Errc::protocol, 0, "sm address: of another peer"};
  if (const auto known = by_peer_.find(peer); known != by_peer_.end()) {
    // The caller gets it here, so it needs no report.
    if (std::exchange(known->second->accept_deferred, false)) {
      std::erase(deferred_accepts_, known->second);
    }
    return known->second;
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
  by_peer_[endpoint.peer()] = &endpoint;
  user_.on_new(endpoint);
  return endpoint;
}

/// The endpoint of an event; null: it has been disconnected.
Endpoint* Connections::find(const ConnectionEvent& event) const noexcept {
  auto* const endpoint = static_cast<Endpoint*>(by_index_[event.index]);
  return endpoint != nullptr && endpoint->link().id == event.id ? endpoint : nullptr;
}

std::size_t Connections::take_events() noexcept {
  std::vector<ConnectionEvent> events = manager_->take_events();
  for (ConnectionEvent& event : events) {
    if (event.kind == ConnectionEvent::Kind::accepted) {
      accept(std::move(event.link));
      continue;
    }
    if (event.kind == ConnectionEvent::Kind::closed) {
      retired_.push_back({event.index, fifo_->head() + fifo_->slots()});
      deferred_work_ = true;
      continue;
    }
    Endpoint* const endpoint = find(event);
    if (endpoint == nullptr) continue;
    switch (event.kind) {
      case ConnectionEvent::Kind::disconnected:
        begin_drain(*endpoint, {Errc::peer_gone, 0, "sm: the peer has disconnected"});
        break;
      case ConnectionEvent::Kind::died:
        begin_drain(*endpoint, {Errc::peer_gone, 0, "sm: the peer's process has ended"});
        break;
      case ConnectionEvent::Kind::answer: take_answer(*endpoint, event.answer); break;
      case ConnectionEvent::Kind::accepted:
      case ConnectionEvent::Kind::closed: break;  // handled above
    }
  }
  return events.size();
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

void Connections::accept(std::unique_ptr<Link> link) noexcept {
  const PeerId peer = link->peer;
  const bool came_back = std::ranges::any_of(
      endpoints_, [&](const auto& earlier) { return earlier->peer() == peer && !earlier->ending.reported; });
  Endpoint& endpoint = add(std::move(link));
  if (!came_back) {
    module_.parameters().observer.on_accepted(endpoint);
    return;
  }
  endpoint.accept_deferred = true;
  deferred_accepts_.push_back(&endpoint);
  deferred_work_ = true;
}

void Connections::begin_drain(Endpoint& endpoint, const Error& why) noexcept {
  if (endpoint.ending.draining || endpoint.dead()) return;
  endpoint.ending.draining = true;
  endpoint.ending.why = why;
  endpoint.ending.last_item = fifo_->head() + fifo_->slots();
  draining_.push_back(&endpoint);
  deferred_work_ = true;
  forget_peer(endpoint);  // the next connect() to this peer makes a new connection
}

void Connections::forget_peer(const btl::Endpoint& endpoint) noexcept {
  if (const auto known = by_peer_.find(endpoint.peer()); known != by_peer_.end() && known->second == &endpoint) {
    by_peer_.erase(known);
  }
}

/// Calls on_accepted for a peer that has come back, after on_failed for all its earlier connections.
void Connections::report_deferred(MessagePeer& peer) noexcept {
  while (peer.accept_deferred) {
    const auto earliest =
        std::ranges::find_if(deferred_accepts_, [&](const Endpoint* other) { return other->peer() == peer.peer(); });
    Endpoint& next = **earliest;
    deferred_accepts_.erase(earliest);
    // Of the peer's earlier connections at most one has been reported as accepted and not yet as failed.
    for (std::size_t i = 0; i < endpoints_.size(); ++i) {
      Endpoint& before = *endpoints_[i];
      if (before.peer() == next.peer() && !before.ending.reported && !before.accept_deferred) end_drained(before);
    }
    next.accept_deferred = false;
    module_.parameters().observer.on_accepted(next);
  }
}

/// All items of the peer in the FIFO are received.  Receives what is in its fast box, then reports the end.
void Connections::end_drained(Endpoint& endpoint) noexcept {
  user_.drain(endpoint);
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
  // A peer has put nothing into the FIFO after its end was noticed, when the position was taken from this side's head:
  // all its items are within one length of the FIFO from there.  An empty FIFO has none of them.
  const auto passed = [&](std::uint64_t position) { return fifo_->empty() || fifo_->head() >= position; };
  for (Endpoint* endpoint : std::exchange(draining_, {})) {
    if (endpoint->dead()) continue;
    if (!passed(endpoint->ending.last_item)) {
      draining_.push_back(endpoint);
      continue;
    }
    if (endpoint->accept_deferred) report_deferred(*endpoint);
    end_drained(*endpoint);
    ++count;
  }
  for (; !failed_.empty(); ++count) {
    Endpoint& endpoint = *failed_.front();
    if (endpoint.accept_deferred) report_deferred(endpoint);
    report_failure(endpoint);
  }
  const auto is_due = [&](const Endpoint* endpoint) {
    return std::ranges::none_of(endpoints_, [&](const auto& earlier) {
      return earlier->peer() == endpoint->peer() && !earlier->ending.reported && !earlier->accept_deferred;
    });
  };
  for (auto next = deferred_accepts_.begin();
       (next = std::ranges::find_if(deferred_accepts_, is_due)) != deferred_accepts_.end();) {
    report_deferred(**next);
    ++count;
  }
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
  std::erase(deferred_accepts_, &endpoint);
  // From here on its messages are dropped.  The index is free when the peer has closed its end too.
  MessagePeer*& place = by_index_[endpoint.link().index];
  if (place == &endpoint) place = nullptr;
  const auto own = std::ranges::find_if(
      endpoints_, [&](const std::unique_ptr<Endpoint>& entry) { return entry.get() == &endpoint; });
  std::swap(*own, endpoints_.back());
  endpoints_.pop_back();
}

}  // namespace opal::btl::sm
