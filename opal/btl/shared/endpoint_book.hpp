// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/endpoint_book.hpp — a transport's endpoints from their making to disconnect(): one that lives per
// peer, and those that have ended, which stay the caller's until it disconnects them and of whose end the observer
// hears once. Owns them; their addresses stay.  Threads: as btl::Module.
#pragma once
#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "opal/btl/peer_id.hpp"

namespace opal::btl {

template <class E>  // a btl::Endpoint
class EndpointBook {
 public:
  [[nodiscard]] const std::unordered_map<PeerId, std::unique_ptr<E>>& living() const noexcept { return living_; }

  /// The endpoint that lives; null: none.
  [[nodiscard]] E* find(const PeerId& peer) const noexcept {
    const auto found = living_.find(peer);
    return found == living_.end() ? nullptr : found->second.get();
  }

  E& add(std::unique_ptr<E> endpoint) {
    std::unique_ptr<E>& place = living_[endpoint->peer()];
    place = std::move(endpoint);
    return *place;
  }

  /// It lives no longer, and that is to be reported.  Nothing happens when it did not live.
  void end(E& endpoint) {
    const auto found = living_.find(endpoint.peer());
    if (found == living_.end() || found->second.get() != &endpoint) return;
    ended_.push_back(std::move(found->second));
    living_.erase(found);
    to_report_.push_back(&endpoint);
  }

  [[nodiscard]] bool has_to_report() const noexcept { return !to_report_.empty(); }
  /// The same of one peer's.
  [[nodiscard]] bool has_to_report(const PeerId& peer) const noexcept {
    return std::any_of(to_report_.begin(), to_report_.end(), [&](const E* ended) { return ended->peer() == peer; });
  }

  /// The first that ended of those whose end has not been asked for here; null: none.
  E* next_to_report() noexcept {
    if (to_report_.empty()) return nullptr;
    E* const endpoint = to_report_.front();
    to_report_.erase(to_report_.begin());
    return endpoint;
  }

  /// Gives it to the caller, unreported; null: it is not here.
  std::unique_ptr<E> take(E& endpoint) noexcept {
    std::erase(to_report_, &endpoint);
    if (const auto found = living_.find(endpoint.peer()); found != living_.end() && found->second.get() == &endpoint) {
      std::unique_ptr<E> taken = std::move(found->second);
      living_.erase(found);
      return taken;
    }
    const auto found =
        std::find_if(ended_.begin(), ended_.end(), [&](const auto& one) { return one.get() == &endpoint; });
    if (found == ended_.end()) return nullptr;
    std::unique_ptr<E> taken = std::move(*found);
    ended_.erase(found);
    return taken;
  }

  /// One that has not been taken, the living first; null: all have been.
  [[nodiscard]] E* any() const noexcept {
    if (!living_.empty()) return living_.begin()->second.get();
    return ended_.empty() ? nullptr : ended_.back().get();
  }

 private:
  std::unordered_map<PeerId, std::unique_ptr<E>> living_;
  std::vector<std::unique_ptr<E>> ended_;
  std::vector<E*> to_report_;  // in ended_
};

}  // namespace opal::btl
