// SPDX-License-Identifier: Apache-2.0
#include "opal/memory/events/monitor.hpp"

#include <fmt/format.h>

#include <atomic>
#include <mutex>

#include "opal/core/log.hpp"

namespace opal::memory {
namespace {

/// The monitor `explicit`: the program reports releases with opal_memory_released().
class Explicit final : public Monitor {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "explicit"; }
  Result<void> start() noexcept override { return {}; }
  [[nodiscard]] bool testable() const noexcept override { return false; }
};

struct Process {
  std::mutex mutex;
  Monitor* supplied = nullptr;  // by supply_monitor()
  std::string asked_for;        // Config::monitor of the first start_monitor()
  Choice choice;                // constant once `chosen` is true
  std::atomic<bool> chosen{false};
};

/// Never destroyed: a patched call may call chosen_monitor() at any time.
Process& process() noexcept {
  static auto& instance = *std::make_unique<Process>().release();
  return instance;
}

/// Chooses `monitor` if it starts and passes the self-test; else adds the reason to `choice`.  True: chosen.
bool try_monitor(Monitor& monitor, Choice& choice) {
  Result<void> outcome = monitor.start();
  if (outcome && monitor.testable()) outcome = self_test();
  if (outcome) {
    choice.monitor = &monitor;
    return true;
  }
  choice.reasons += fmt::format("{}: {}\n", monitor.name(), to_string(outcome.error()));
  return false;
}

void choose(const std::string& wanted, Monitor* supplied, Choice& choice) {
  if (wanted == "none") {
    choice.reasons = "memory_monitor is none\n";
    return;
  }
  if (wanted == "explicit") {
    static Explicit instance;
    try_monitor(instance, choice);
    return;
  }
  const bool any = wanted == "auto";
  if (any && supplied != nullptr && try_monitor(*supplied, choice)) return;
  if (any || wanted == "patcher") {
#if defined(__x86_64__)
    static auto& patcher = *make_patcher().release();
    if (try_monitor(patcher, choice)) return;
#else
    choice.reasons += "patcher: written for x86-64 only; use explicit or the program's own monitor\n";
#endif
  }
}

}  // namespace

Monitor::~Monitor() = default;

bool supply_monitor(Monitor& monitor) noexcept {
  const std::lock_guard lock{process().mutex};
  if (process().chosen.load(std::memory_order_relaxed)) return false;
  process().supplied = &monitor;
  return true;
}

const Choice& start_monitor(const Config& config) {
  Process& state = process();
  const std::lock_guard lock{state.mutex};
  if (!state.chosen.load(std::memory_order_relaxed)) {
    state.asked_for = config.monitor;
    choose(config.monitor, state.supplied, state.choice);
    state.chosen.store(true, std::memory_order_release);
    log::debug("memory", "monitor: {}\n{}", state.choice.monitor != nullptr ? state.choice.monitor->name() : "none",
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

}  // namespace opal::memory
