// SPDX-License-Identifier: Apache-2.0
// make_patcher() for processors other than x86-64, for which the patcher is not implemented.
#include "opal/memory/events/monitor.hpp"

namespace opal::memory {
namespace {

class Refused final : public Monitor {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "patcher"; }
  Result<void> start() noexcept override {
    return Error{Errc::not_supported, 0, "patcher: written for x86-64 only; use explicit or the program's own monitor"};
  }
};

}  // namespace

std::unique_ptr<Monitor> make_patcher() { return std::make_unique<Refused>(); }

}  // namespace opal::memory
