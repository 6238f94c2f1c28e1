// SPDX-License-Identifier: Apache-2.0
#include "opal/memory/events/monitor.hpp"

#include <fmt/format.h>

#include <atomic>
#include <memory>
#include <mutex>

#include "opal/core/log.hpp"

namespace opal::memory {
namespace {

struct Process {
  std::mutex mutex;
  std::string asked_for;  // Config::monitor of the first start_monitor()
  Choice choice;          // constant once `chosen` is true
  std::atomic<bool> chosen{false};
};

/// Never destroyed: a patched call may call chosen_monitor() at any time.
Process& process() noexcept {
  static auto& instance = *std::make_unique<Process>().release();
  return instance;
}

Choice choose(const std::string& wanted) {
  if (wanted == "none") return {nullptr, "memory_monitor is none\n"};
  if (wanted == "explicit") return {"explicit", {}};
  Result<void> outcome = start_patcher();
  if (outcome) outcome = self_test();
  if (outcome) return {"patcher", {}};
  return {nullptr, fmt::format("patcher: {}\n", to_string(outcome.error()))};
}

}  // namespace

const Choice& start_monitor(const Config& config) {
  Process& state = process();
  const std::lock_guard lock{state.mutex};
  if (!state.chosen.load(std::memory_order_relaxed)) {
    state.asked_for = config.monitor;
    state.choice = choose(config.monitor);
    state.chosen.store(true, std::memory_order_release);
    log::debug("memory", "monitor: {}\n{}", state.choice.monitor != nullptr ? state.choice.monitor : "none",
               state.choice.reasons);
  } else if (config.monitor != state.asked_for) {
    log::once(log::Level::warn, "second memory_monitor", "memory",
              "memory_monitor {} comes too late: this process already has {}, and there is one per process",
              config.monitor, state.asked_for);
  }
  return state.choice;
}

const Choice* chosen_monitor() noexcept {
  return process().chosen.load(std::memory_order_acquire) ? &process().choice : nullptr;
}

bool monitored() noexcept {
  const Choice* const choice = chosen_monitor();
  return choice != nullptr && choice->monitor != nullptr;
}

#if !defined(__x86_64__)
Result<void> start_patcher() {
  return Error{Errc::not_supported, 0, "written for x86-64 only; use memory_monitor=explicit"};
}
#endif

}  // namespace opal::memory
