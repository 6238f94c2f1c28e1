// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/shared/lent_registrations.hpp"

#include <utility>

#include "opal/btl/module.hpp"
#include "opal/btl/shared/rdma_operations.hpp"
#include "opal/btl/shared/registrations/registration_table.hpp"
#include "opal/core/log.hpp"
#include "opal/rcache/cache.hpp"

namespace opal::btl {
namespace {

/// What an honest peer has asked at most and not been answered: each of its transfers asks for two pieces at a time.
constexpr std::size_t kMostAnswers = 2 * RdmaOperations::kMost;

}  // namespace

Result<rcache::Lease> LentRegistrations::lend(const Peer& peer, const wire::LendRequest& request,
                                              ByteSpan handle_bytes) noexcept {
  const auto wanted = static_cast<Rights>(request.rights);
  if (wanted != Rights::remote_read && wanted != Rights::remote_write) {
    return Error{Errc::protocol, 0, "lent registrations: rights that no transfer needs", request.rights};
  }
  OPAL_TRY_ASSIGN(const MemoryHandle handle, MemoryHandle::from_bytes(handle_bytes));
  if (request.address < request.base || request.size > request.total ||
      request.address - request.base > request.total - request.size) {
    return Error{Errc::protocol, 0, "lent registrations: a piece outside its transfer", request.address};
  }
  OPAL_TRY(module_.host().registrations.check(handle, request.base, request.total, wanted));
  rcache::Cache* const cache = module_.registrations();
  const Error by_messages{Errc::not_supported, 0, "lent registrations: the device has no room for this one"};
  if (cache == nullptr || peer.lent >= kMostPerPeer) return by_messages;
  auto* const base = reinterpret_cast<const void*>(request.address);  // NOLINT(performance-no-int-to-ptr)
  auto lease = cache->get(base, request.size, request.rights);
  if (!lease) return by_messages;
  return lease;
}

void LentRegistrations::on_request(Delivery& delivery) noexcept {
  wire::LendRequest request{};
  if (!read_object(delivery.data, request)) return;
  Peer& peer = peers_[&delivery.from];
  Answer result{{request.operation, 0, request.piece, 0}, {}};
  auto lease = lend(peer, request, delivery.data.subspan(sizeof request));
  if (!lease) {
    result.lent.code = static_cast<std::uint32_t>(lease.error().code);
    return answer(delivery.from, peer, result);
  }
  result.handle = (*lease)->cookie().get<MemoryHandle>();
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  Slot& slot = slots_[index];
  slot.to = &delivery.from;
  slot.lease = std::move(*lease);
  ++peer.lent;
  result.lent.name = (std::uint64_t{slot.generation} << 32) | index;
  answer(delivery.from, peer, result);
}

Post LentRegistrations::send(Endpoint& to, const Answer& answer) noexcept {
  return module_.send_inline(to, wire::kLent, bytes_of(answer.lent), answer.handle.bytes());
}

void LentRegistrations::answer(Endpoint& to, Peer& peer, const Answer& answer) noexcept {
  // A peer that is gone is not answered; endpoint_gone() takes back what it was lent.
  if (peer.answers.empty() && send(to, answer) != Post::again) return;
  if (peer.answers.size() >= kMostAnswers) {
    log::once(log::Level::warn, "lending flood", "btl", "peer {} asks for more than it may; answers dropped",
              to_string(to.peer()));
    return;
  }
  peer.answers.push_back(answer);
  ++waiting_;
}

std::size_t LentRegistrations::progress() noexcept {
  if (waiting_ == 0) return 0;
  std::size_t sent = 0;
  for (auto& [endpoint, peer] : peers_) {
    while (!peer.answers.empty() && send(*endpoint, peer.answers.front()) != Post::again) {
      peer.answers.pop_front();
      --waiting_;
      ++sent;
    }
  }
  return sent;
}

void LentRegistrations::take_back(Slot& slot) noexcept {
  slot.lease.reset();
  slot.to = nullptr;
  ++slot.generation;
  free_.push_back(static_cast<std::uint32_t>(&slot - slots_.data()));
}

void LentRegistrations::on_return(Delivery& delivery) noexcept {
  wire::LentReturn returned{};
  if (!read_object(delivery.data, returned)) return;
  const std::uint64_t index = returned.name & 0xffffffffU;
  if (index >= slots_.size()) return;
  Slot& slot = slots_[index];
  if (slot.to != &delivery.from || slot.generation != returned.name >> 32) return;
  --peers_[&delivery.from].lent;
  take_back(slot);
}

void LentRegistrations::endpoint_gone(Endpoint& endpoint) noexcept {
  const auto found = peers_.find(&endpoint);
  if (found == peers_.end()) return;
  waiting_ -= found->second.answers.size();
  peers_.erase(found);
  for (Slot& slot : slots_) {
    if (slot.to == &endpoint) take_back(slot);
  }
}

}  // namespace opal::btl
