// SPDX-License-Identifier: Apache-2.0
// opal/gpu/gpu.hpp — whether this process can have GPU memory at all.
// The CUDA driver is loaded at run time, so that one binary serves machines with and without GPUs, and never
// initialised here: without the program's own cuInit() there is no device memory, and no context is ever created for
// it. Threads: everything from any thread.
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
  std::string why;         ///< not loaded: why, in words; stays as it is for the life of the process
};

/// Loads the driver unless `config` forbids it; the first call decides for the process, later ones return the same.
/// Wants to come after memory::start_monitor(), without which classifying host memory costs a call of the driver.
/// It is said in the log when `config` demands a driver and there is none.
OPAL_EXPORT const Status& start(const Config& config);

/// What start() was given; only while active().
const Config& started_with() noexcept;

/// Success, or not_supported with the reason that start() found; before start() that it was not called.
OPAL_EXPORT Result<void> usable() noexcept;

namespace detail {
OPAL_EXPORT extern std::atomic<bool> driver_loaded;
}  // namespace detail

/// False: every pointer is host memory.  One load.
inline bool active() noexcept { return detail::driver_loaded.load(std::memory_order_relaxed); }

}  // namespace opal::gpu
