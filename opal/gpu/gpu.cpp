// SPDX-License-Identifier: Apache-2.0
#include "opal/gpu/gpu.hpp"

#include <mutex>

#include "opal/core/log.hpp"
#include "opal/gpu/driver.hpp"
#include "opal/gpu/host_pages.hpp"

namespace opal::gpu {
namespace {

std::mutex mutex;                             // guards the writes of start() to the next two
std::atomic<const Status*> decided{nullptr};  // for the life of the process

}  // namespace

namespace detail {
std::atomic<bool> driver_loaded{false};
}  // namespace detail

const Status& start(const Config& config) {
  const std::lock_guard lock{mutex};
  if (const Status* const before = decided.load(std::memory_order_acquire); before != nullptr) return *before;
  static Status status;
  if (config.use == "off") {
    status.why = "gpu_use is off";
  } else {
    status = load_driver(config);
    const log::Level level = config.use == "on" ? log::Level::warn : log::Level::info;
    if (!status.loaded) log::write(level, "gpu", "pointers to device memory are not recognised: {}", status.why);
  }
  if (status.loaded) host_pages.start();
  decided.store(&status, std::memory_order_release);
  detail::driver_loaded.store(status.loaded, std::memory_order_release);
  return status;
}

Result<void> usable() noexcept {
  const Status* const status = decided.load(std::memory_order_acquire);
  if (status == nullptr) return Error{Errc::not_supported, 0, "gpu::start was not called"};
  if (!status->loaded) return Error{Errc::not_supported, 0, status->why.c_str()};
  return {};
}

}  // namespace opal::gpu
