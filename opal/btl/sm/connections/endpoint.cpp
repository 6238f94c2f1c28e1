// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/sm/connections/endpoint.hpp"

#include <fmt/format.h>

namespace opal::btl::sm {

std::string Endpoint::describe() const {
  const SendGuard guard{*this};
  return fmt::format("shared memory; {}; fast box {}", link_->copy.why(), sending.fast_box.on() ? "in use" : "not yet");
}

}  // namespace opal::btl::sm
