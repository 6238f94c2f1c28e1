// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/peer_id.hpp"

#include <fmt/format.h>

#include "opal/core/system/random.hpp"

namespace opal {

PeerId PeerId::random() noexcept { return {random_u64(), random_u64()}; }

std::string to_string(const PeerId& id) { return fmt::format("{:08x}", id.high >> 32); }

}  // namespace opal
