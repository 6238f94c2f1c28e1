// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/shared/lent_registrations.hpp"

#include <utility>

#include "opal/btl/module.hpp"
#include "opal/btl/shared/registrations/registration_table.hpp"
#include "opal/rcache/cache.hpp"

namespace opal::btl {

Result<rcache::Lease> LentRegistrations::lend(std::size_t already_lent, const wire::LendRequest& request,
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
  OPAL_TRY(module_.parameters().registrations.check(handle, request.base, request.total, wanted));
  rcache::Cache* const cache = module_.registrations();
  const Error by_messages{Errc::not_supported, 0, "lent registrations: the device has no room for this one"};
  if (cache == nullptr || already_lent >= kMostPerPeer) return by_messages;
  auto* const base = reinterpret_cast<const void*>(request.address);  // NOLINT(performance-no-int-to-ptr)
  auto lease = cache->get(base, request.size, request.rights);
  if (!lease) return by_messages;
  return lease;
}

void LentRegistrations::on_request(Delivery& delivery) noexcept {
  wire::LendRequest request{};
  if (!read_object(delivery.data, request)) return;
  auto& lent = lent_[&delivery.from];
  wire::Lent answer{request.operation, 0, request.piece, 0};
  auto lease = lend(lent.size(), request, delivery.data.subspan(sizeof request));
  if (!lease) {
    answer.code = static_cast<std::uint32_t>(lease.error().code);
    return replies_.send(delivery.from, wire::kLent, bytes_of(answer), {});
  }
  const auto handle = (*lease)->cookie().get<MemoryHandle>();
  answer.name = ++last_name_;
  lent.emplace(answer.name, std::move(*lease));
  replies_.send(delivery.from, wire::kLent, bytes_of(answer), handle.bytes());
}

void LentRegistrations::on_return(Delivery& delivery) noexcept {
  wire::LentReturn returned{};
  if (!read_object(delivery.data, returned)) return;
  if (const auto peer = lent_.find(&delivery.from); peer != lent_.end()) peer->second.erase(returned.name);
}

std::size_t LentRegistrations::lent() const noexcept {
  std::size_t count = 0;
  for (const auto& [peer, leases] : lent_) count += leases.size();
  return count;
}

}  // namespace opal::btl
