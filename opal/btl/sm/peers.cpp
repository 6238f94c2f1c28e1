// SPDX-License-Identifier: Apache-2.0
// Peers of a shared-memory module: how they come, go, die and are forgotten.
#include <fmt/format.h>

#include <algorithm>

#include "opal/btl/shared/rdma_emulation.hpp"
#include "opal/btl/sm/module.hpp"

namespace opal::btl::sm {

std::string Endpoint::describe() const {
  const SendGuard guard{*this};
  return fmt::format("shared memory; {}; fast box {}", link_->copy.why(), box_out_.on() ? "in use" : "not yet");
}

Result<btl::Endpoint*> Module::connect(const PeerId& peer, ByteSpan address) {
  OPAL_TRY_ASSIGN(const Address theirs, Address::decode(address));
  if (theirs.peer != peer) return Error{Errc::protocol, 0, "sm address: of another peer"};
  if (const auto known = by_peer_.find(peer); known != by_peer_.end()) {
    // The caller learns of it here; it need not be announced.
    if (std::exchange(known->second->unannounced_, false)) {
      std::erase(unannounced_, known->second);
    }
    return known->second;
  }
  if (peer == host().id) return Error{Errc::unreachable, 0, "sm: that is this Context itself"};
  if (theirs.boot != address_.boot) return Error{Errc::unreachable, 0, "sm: the peer is on another host"};
  if (theirs.network_namespace != address_.network_namespace) {
    return Error{Errc::unreachable, 0, "sm: the peer is in another network namespace", theirs.network_namespace};
  }
  // Across user namespaces the numbers say nothing; the kernel translates them when the socket stands.
  if (theirs.user_namespace == address_.user_namespace && theirs.user_id != address_.user_id) {
    return Error{Errc::unreachable, 0, "sm: the peer belongs to another user", theirs.user_id};
  }
  OPAL_TRY_ASSIGN(std::unique_ptr<Link> link, connections_->connect(theirs));
  return &add(std::move(link));
}

Endpoint& Module::add(std::unique_ptr<Link> link) {
  endpoints_.push_back(std::make_unique<Endpoint>(*this, std::move(link)));
  Endpoint& endpoint = *endpoints_.back();
  endpoint.sends_till_box_ = config_.fbox_threshold;
  all_fences_paid_ = all_fences_paid_ && endpoint.link_->fences_paid;
  if (SharedMechanism* shared = endpoint.link_->shared; shared != nullptr) {
    shared->on_need([this, id = endpoint.link_->id](std::uint32_t number) { connections_->ask_pool(id, number); });
  }
  if (CopyMechanism* const knem = endpoint.link_->copy.find(MechanismKind::knem); knem != nullptr) {
    static_cast<KnemMechanism*>(knem)->on_need(
        [this, id = endpoint.link_->id](const SoftwareHandle& region) { connections_->ask_cookie(id, region); });
  }
  by_index_[endpoint.link_->index] = &endpoint;
  by_peer_[endpoint.peer()] = &endpoint;
  return endpoint;
}

std::size_t Module::handle_connection_events() noexcept {
  std::vector<ConnectionEvent> event = connections_->take_events();
  for (ConnectionEvent& piece : event) {
    switch (piece.kind) {
      case ConnectionEvent::Kind::accepted: {
        const PeerId peer = piece.link->peer;
        const bool came_back = std::any_of(endpoints_.begin(), endpoints_.end(), [&](const auto& earlier) {
          return earlier->peer() == peer && !earlier->told_;
        });
        Endpoint& endpoint = add(std::move(piece.link));
        if (!came_back) {
          host().observer.on_accepted(endpoint);
          break;
        }
        endpoint.unannounced_ = true;
        unannounced_.push_back(&endpoint);
        unsettled_ = true;
        break;
      }
      case ConnectionEvent::Kind::left:
      case ConnectionEvent::Kind::died: {
        Endpoint* const endpoint = by_index_[piece.index];
        if (endpoint == nullptr || endpoint->link_->id != piece.id || endpoint->leaving_ || endpoint->dead()) break;
        endpoint->leaving_ = true;
        endpoint->why_ = {Errc::peer_gone, 0,
                          piece.kind == ConnectionEvent::Kind::left ? "sm: the peer has disconnected"
                                                                    : "sm: the peer's process has ended"};
        endpoint->last_item_ = inbox_.fifo().head() + inbox_.fifo().slots();
        leaving_.push_back(endpoint);
        unsettled_ = true;
        // Whoever connects to this peer from now on means a new life of it.
        if (const auto known = by_peer_.find(endpoint->peer()); known != by_peer_.end() && known->second == endpoint) {
          by_peer_.erase(known);
        }
        break;
      }
      case ConnectionEvent::Kind::closed:
        cooling_.push_back({piece.index, inbox_.fifo().head() + inbox_.fifo().slots()});
        unsettled_ = true;
        break;
      case ConnectionEvent::Kind::pool: {
        Endpoint* const endpoint = by_index_[piece.index];
        if (endpoint != nullptr && endpoint->link_->id == piece.id && endpoint->link_->shared != nullptr) {
          endpoint->link_->shared->take(std::move(piece.pool));
        }
        break;
      }
      case ConnectionEvent::Kind::cookie: {
        Endpoint* const endpoint = by_index_[piece.index];
        if (endpoint == nullptr || endpoint->link_->id != piece.id) break;
        // It may have been given up since it asked.
        if (CopyMechanism* const knem = endpoint->link_->copy.find(MechanismKind::knem); knem != nullptr) {
          static_cast<KnemMechanism*>(knem)->take(piece.cookie);
        }
        break;
      }
      case ConnectionEvent::Kind::file: {
        Endpoint* const endpoint = by_index_[piece.index];
        if (endpoint == nullptr || endpoint->link_->id != piece.id || endpoint->dead()) break;
        on_file(*endpoint, std::move(piece.file));
        break;
      }
    }
  }
  return event.size();
}

std::uint64_t Module::extensions(const btl::Endpoint& peer) noexcept {
  return static_cast<const Endpoint&>(peer).link_->extensions;
}

void Module::expect_file(const btl::Endpoint& from) noexcept {
  connections_->expect_file(static_cast<const Endpoint&>(from).link_->id);
}

void Module::give_file(const btl::Endpoint& to, const SoftwareHandle& region, const FileNote& note, int file) noexcept {
  connections_->give_file(static_cast<const Endpoint&>(to).link_->id, region, note, file);
}

/// on_accepted for a peer that has come back, after on_failed for all its earlier lives.
void Module::announce(Endpoint& endpoint) noexcept {
  while (endpoint.unannounced_) {
    const auto earlier = std::find_if(unannounced_.begin(), unannounced_.end(),
                                      [&](const Endpoint* other) { return other->peer() == endpoint.peer(); });
    Endpoint& next = **earlier;
    unannounced_.erase(earlier);
    // At most one of them has been announced and not ended.
    for (std::size_t i = 0; i < endpoints_.size(); ++i) {
      Endpoint& before = *endpoints_[i];
      if (before.peer() == next.peer() && !before.told_ && !before.unannounced_) end_life(before);
    }
    next.unannounced_ = false;
    host().observer.on_accepted(next);
  }
}

/// Everything that the peer has put into the FIFO has been received: what lies in its box, then the end.
void Module::end_life(Endpoint& endpoint) noexcept {
  while (endpoint.has_box_in() && receive_from_box(endpoint, SIZE_MAX) != 0) {
  }
  fail(endpoint, endpoint.why_);
  tell_failure(endpoint);
}

void Module::tell_failure(Endpoint& endpoint) noexcept {
  std::erase(failed_, &endpoint);
  forget_box(endpoint);
  std::erase(blocked_, &endpoint);
  connections_->close(endpoint.link_->id);
  abandon_pulls(endpoint, endpoint.why_);
  abandon(endpoint, endpoint.why_);
  emulation().endpoint_gone(endpoint, endpoint.why_);
  endpoint.told_ = true;
  host().observer.on_failed(endpoint, endpoint.why_);
}

void Module::fail(Endpoint& endpoint, const Error& why) noexcept {
  const Endpoint::SendGuard guard{endpoint};
  fail_with_send_lock(endpoint, why);
}

void Module::fail_with_send_lock(Endpoint& endpoint, const Error& why) noexcept {
  if (endpoint.dead()) return;
  endpoint.mark_dead(why);
  endpoint.why_ = why;
  endpoint.box_out_.turn_off();
  failed_.push_back(&endpoint);
  unsettled_ = true;
  if (const auto known = by_peer_.find(endpoint.peer()); known != by_peer_.end() && known->second == &endpoint) {
    by_peer_.erase(known);
  }
}

/// Ends what has to end; at a point of progress() where no message is being looked at.
std::size_t Module::settle() noexcept {
  std::size_t count = 0;
  // Everything that a leaving peer has put into the FIFO lies within one length of it from where it left.
  const auto passed = [&](std::uint64_t position) { return inbox_.fifo().empty() || inbox_.fifo().head() >= position; };
  std::vector<Endpoint*> leaving = std::exchange(leaving_, {});
  for (Endpoint* endpoint : leaving) {
    if (endpoint->dead()) continue;
    if (!passed(endpoint->last_item_)) {
      leaving_.push_back(endpoint);
      continue;
    }
    if (endpoint->unannounced_) announce(*endpoint);
    end_life(*endpoint);
    ++count;
  }
  for (; !failed_.empty(); ++count) {
    Endpoint& endpoint = *failed_.front();
    if (endpoint.unannounced_) announce(endpoint);
    tell_failure(endpoint);
  }
  const auto is_free = [&](const Endpoint* endpoint) {
    return std::none_of(endpoints_.begin(), endpoints_.end(), [&](const auto& earlier) {
      return earlier->peer() == endpoint->peer() && !earlier->told_ && !earlier->unannounced_;
    });
  };
  for (auto next = unannounced_.begin();
       (next = std::find_if(unannounced_.begin(), unannounced_.end(), is_free)) != unannounced_.end();) {
    announce(**next);
    ++count;
  }
  std::erase_if(cooling_, [&](const CoolingIndex& cooling) {
    if (!passed(cooling.until)) return false;
    by_index_[cooling.index] = nullptr;
    connections_->release_index(cooling.index);
    return true;
  });
  if (!waiting_.empty()) wake_waiting();
  const bool more = attend(count);
  unsettled_ =
      more || !waiting_.empty() || !leaving_.empty() || !failed_.empty() || !unannounced_.empty() || !cooling_.empty();
  return count;
}

void Module::disconnect(btl::Endpoint& peer) noexcept {
  // In a forked child: the transfers, the claim words in shared memory and the completions are its parent's.
  if (connections_->inherited()) return;
  auto& endpoint = static_cast<Endpoint&>(peer);
  fail(endpoint, {Errc::canceled, 0, "sm: disconnected"});
  abandon_pulls(endpoint, {Errc::canceled, 0, "sm: disconnected"});
  abandon(endpoint, {Errc::canceled, 0, "sm: disconnected"});
  if (!endpoint.told_) emulation().endpoint_gone(endpoint, {Errc::canceled, 0, "sm: disconnected"});
  connections_->close(endpoint.link_->id);
  forget_box(endpoint);
  std::erase(blocked_, &endpoint);
  std::erase(starved_, &endpoint);
  std::erase(announced_, &endpoint);
  std::erase(waiting_, &endpoint);
  std::erase(leaving_, &endpoint);
  std::erase(failed_, &endpoint);
  std::erase(unannounced_, &endpoint);
  // From here on its messages are dropped; the index is free when the peer has closed its end too.
  Endpoint*& place = by_index_[endpoint.link_->index];
  if (place == &endpoint) place = nullptr;
  const auto own = std::find_if(endpoints_.begin(), endpoints_.end(),
                                [&](const std::unique_ptr<Endpoint>& entry) { return entry.get() == &endpoint; });
  std::swap(*own, endpoints_.back());
  endpoints_.pop_back();
}

}  // namespace opal::btl::sm
