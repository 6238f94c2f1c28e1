// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/peer_id.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <cstdlib>

namespace opal {

PeerId PeerId::random() noexcept {
  PeerId id;
  // Requests of up to 256 bytes are never interrupted once the kernel's pool is seeded.  A PeerId must be unique.
  if (::getrandom(&id, sizeof id, 0) != static_cast<ssize_t>(sizeof id)) std::abort();
  return id;
}

std::string to_string(const PeerId& id) { return fmt::format("{:08x}", id.high >> 32); }

}  // namespace opal
