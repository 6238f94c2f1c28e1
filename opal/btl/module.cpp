// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/module.hpp"

#include <utility>

namespace opal::btl {

Endpoint::Endpoint(Module& module, const PeerId& peer) noexcept : module_(module), peer_(peer) {
  next_ = std::exchange(module.endpoints_, this);
  if (next_ != nullptr) next_->previous_ = this;
}

Endpoint::~Endpoint() {
  (previous_ != nullptr ? previous_->next_ : module_.endpoints_) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
}

Module::~Module() = default;

void Fragment::give_back_unsent() noexcept { to_->module().free(*this); }

}  // namespace opal::btl
