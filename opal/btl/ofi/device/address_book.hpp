// SPDX-License-Identifier: Apache-2.0
// opal/btl/ofi/device/address_book.hpp — the addresses of peers in the address vector, with a count of their users.
// An address without users stays for a while: its removal closes connections of the provider, which may carry the next
// Hello of that peer.  Owned by the module.  Threads: as the module.
#pragma once
#include <rdma/fabric.h>

#include <cstdint>
#include <list>
#include <string>
#include <unordered_map>
#include <vector>

#include "opal/core/bytes.hpp"
#include "opal/core/result.hpp"

namespace opal::btl::ofi {

class AddressBook {
 public:
  explicit AddressBook(fid_av* addresses) noexcept : addresses_(addresses) {}

  /// Adds a user of the address with this libfabric name.  Errors: those of fi_av_insert().
  Result<fi_addr_t> use(const std::vector<std::byte>& name);
  void release(const std::vector<std::byte>& name) noexcept;

 private:
  static constexpr std::size_t kMostIdle = 64;
  struct Entry {
    fi_addr_t address = FI_ADDR_UNSPEC;
    std::uint32_t users = 0;
  };
  fid_av* addresses_;
  std::unordered_map<std::string, Entry> entries_;  // by name
  std::list<std::string> idle_;                     // names without users, the oldest first
};

}  // namespace opal::btl::ofi
