// SPDX-License-Identifier: Apache-2.0
// opal/gpu/gpu.hpp — loads the CUDA driver and says whether this process can have GPU memory.
// The driver is loaded at run time, so that one binary serves hosts with and without GPUs.  OPAL neither calls cuInit()
// nor creates contexts: before the program's own cuInit() there is no device memory.  Threads: any.
#pragma once
#include <atomic>
#include <string>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/gpu/config.hpp"

namespace opal::gpu {

struct Status {
  bool loaded = false;
  int driver_version = 0;  ///< 1000 * major + 10 * minor of the newest CUDA that it supports
  std::string why;         ///< why the driver is not loaded; constant after start()
};

/// Loads the driver unless `config` forbids it.  Only the first call in a process has an effect; later ones return the
/// same Status.  Logs a warning if `config` demands a driver and there is none.
/// Call it after memory::start_monitor(): without the monitor each is_host() of host memory costs a call of the driver.
OPAL_EXPORT const Status& start(const Config& config);

/// Succeeds when the driver is loaded, also before the program's cuInit().  Errors: not_supported (start() was not
/// called; or the driver is not loaded, with the reason).
OPAL_EXPORT Result<void> usable() noexcept;

namespace detail {
OPAL_EXPORT extern std::atomic<bool> driver_loaded;
}  // namespace detail

/// True if the driver is loaded; false: every pointer is host memory.  Cost: one load.
inline bool active() noexcept { return detail::driver_loaded.load(std::memory_order_relaxed); }

}  // namespace opal::gpu
