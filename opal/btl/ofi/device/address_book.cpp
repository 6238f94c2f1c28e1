// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/ofi/device/address_book.hpp"

#include <rdma/fi_domain.h>

#include "opal/btl/ofi/device/library.hpp"

namespace opal::btl::ofi {

namespace {

std::string key_of(const std::vector<std::byte>& name) {
  return {reinterpret_cast<const char*>(name.data()), name.size()};
}

}  // namespace

Result<fi_addr_t> AddressBook::use(const std::vector<std::byte>& name) {
  const std::string key = key_of(name);
  Entry& entry = entries_[key];
  if (entry.address == FI_ADDR_UNSPEC) {
    if (const int count = fi_av_insert(addresses_, name.data(), 1, &entry.address, 0, nullptr); count != 1) {
      entries_.erase(key);
      return count < 0 ? error_of(count, "fi_av_insert") : Error{Errc::unreachable, 0, "fi_av_insert"};
    }
  }
  if (entry.users == 0) idle_.remove(key);
  ++entry.users;
  return entry.address;
}

void AddressBook::release(const std::vector<std::byte>& name) noexcept {
  const auto found = entries_.find(key_of(name));
  if (found == entries_.end() || --found->second.users != 0) return;
  idle_.push_back(found->first);
  if (idle_.size() <= kMostIdle) return;
  const auto oldest = entries_.find(idle_.front());
  (void)fi_av_remove(addresses_, &oldest->second.address, 1, 0);
  entries_.erase(oldest);
  idle_.pop_front();
}

}  // namespace opal::btl::ofi
