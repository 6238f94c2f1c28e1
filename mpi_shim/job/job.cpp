// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/job/job.hpp"

#include "opal/core/config/store.hpp"

namespace mpi_shim {

Result<opal::mpool::Pool*> Job::memory() {
  const am::Lock::Guard guard{lock()};
  if (memory_ == nullptr) {
    OPAL_TRY_ASSIGN(const auto config, config::Store::from_environment().load(opal::mpool::kGroup));
    // Ranks of this host can map a shared pool, so large transfers and one-sided accesses need no system call.
    auto pool = opal::mpool::open("shared", config);
    if (!pool) pool = opal::mpool::open("heap", config);
    if (!pool) return pool.error();
    memory_ = std::move(*pool);
  }
  return memory_.get();
}

opal::mpool::Usage Job::memory_usage() const { return memory_ != nullptr ? memory_->usage() : opal::mpool::Usage{}; }

}  // namespace mpi_shim
