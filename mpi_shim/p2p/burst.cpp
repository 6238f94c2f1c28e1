// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/p2p/burst.hpp"

namespace mpi_shim::p2p {

namespace am = opal::am;

void Burst::before_send(const am::Endpoint& to, bool may_wait) noexcept {
  if (may_wait && to_ == &to) {
    if (++length_ == kAtOnce + 1) context_.begin_batch();
    return;
  }
  end();
  Burst* none = nullptr;
  if (!may_wait || !current_.compare_exchange_strong(none, this, std::memory_order_relaxed)) return;
  to_ = &to;
  length_ = 1;
}

void Burst::end() noexcept {
  const am::Lock::Guard guard{context_.lock()};
  if (to_ == nullptr) return;
  to_ = nullptr;
  current_.store(nullptr, std::memory_order_relaxed);
  if (length_ > kAtOnce) context_.end_batch();
}

}  // namespace mpi_shim::p2p
