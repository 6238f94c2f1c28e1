// SPDX-License-Identifier: Apache-2.0
// opal/btl/portals4/name.hpp — the address of a module in the network, which is part of its address.  Each change
// requires a new wire::kWireVersion.
#pragma once
#include <portals4.h>

#include <type_traits>

#include "opal/btl/shared/rdm/address.hpp"
#include "opal/core/bytes.hpp"

namespace opal::btl::portals4 {

inline constexpr std::uint32_t kMagic = 0x34747020;  ///< of this transport's addresses

struct Name {
  std::uint32_t nid;
  std::uint32_t pid;
  std::uint32_t message_entry;  ///< index in the portal table
  std::uint32_t memory_entry;

  [[nodiscard]] ptl_process_t process() const noexcept {
    ptl_process_t process{};
    process.phys.nid = nid;
    process.phys.pid = pid;
    return process;
  }
};
static_assert(sizeof(Name) == 16 && std::has_unique_object_representations_v<Name>, "wire layout v1");

/// Requires: Module::reach() has checked the address.
inline Name name_of(const rdm::Address& address) noexcept {
  Name name{};
  (void)read_object(ByteSpan{address.name}, name);
  return name;
}

}  // namespace opal::btl::portals4
