// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/rma/target/control.hpp"

namespace mpi_shim::rma {

bool AccessLock::try_shared() noexcept {
  if (writers_waiting_.load(std::memory_order_relaxed) != 0) return false;
  std::uint32_t readers = state_.load(std::memory_order_relaxed);
  while ((readers & kWriter) == 0) {
    if (state_.compare_exchange_weak(readers, readers + 1, std::memory_order_acquire, std::memory_order_relaxed))
      return true;
  }
  return false;
}

bool AccessLock::try_exclusive() noexcept {
  std::uint32_t unlocked = 0;
  return state_.compare_exchange_strong(unlocked, kWriter, std::memory_order_acquire, std::memory_order_relaxed);
}

}  // namespace mpi_shim::rma
