// SPDX-License-Identifier: Apache-2.0
#include "opal/memory/events/monitor.hpp"

#include <fmt/format.h>

#include <atomic>
#include <memory>

#include "opal/core/log.hpp"

namespace opal::memory {
namespace {

constinit std::atomic<const Choice*> chosen{nullptr};

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
  struct First {
    std::string asked_for;
    Choice choice;
  };
  // Never destroyed: a patched call may call chosen_monitor() at any time.
  static const First& first = *std::make_unique<First>(First{config.monitor, choose(config.monitor)}).release();
  const auto& [asked_for, choice] = first;
  chosen.store(&choice, std::memory_order_release);
  log::once(log::Level::debug, "memory_monitor", "memory", "monitor: {}\n{}",
            choice.monitor != nullptr ? choice.monitor : "none", choice.reasons);
  if (config.monitor != asked_for) {
    log::once(log::Level::warn, "second memory_monitor", "memory",
              "memory_monitor {} comes too late: this process already has {}, and there is one per process",
              config.monitor, asked_for);
  }
  return choice;
}

const Choice* chosen_monitor() noexcept { return chosen.load(std::memory_order_acquire); }

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
