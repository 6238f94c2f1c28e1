// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/p2p/waits/vcis.hpp"

#include <algorithm>
#include <bit>

#include "opal/am/spin.hpp"
#include "opal/core/clock.hpp"

namespace mpi_shim::p2p {
namespace {

using std::chrono::milliseconds;

// The longest sleep.  A thread that polls another VCI disarms it.  If no thread polls that VCI afterwards, its next
// message does not wake this thread, and waits until this sleep ends.
constexpr milliseconds kLongestSleep{8};

/// Calls `visit` with the number of each VCI of the set.
template <class Visit>
void for_each(Vcis::Set vcis, Visit visit) {
  for (; vcis != 0; vcis &= vcis - 1) visit(static_cast<unsigned>(std::countr_zero(vcis)));
}

}  // namespace

void Vcis::join(Engine& engine) {
  engine.vci_ = count();
  engines_.push_back(&engine);
  for (Engine* each : engines_) each->vcis_ = count() > 1 ? this : nullptr;  // a single Engine waits by itself
}

std::size_t Vcis::progress_own(Set mine) noexcept {
  std::size_t count = 0;
  std::uint32_t round = 0;  // of the last VCI of the set
  for_each(mine, [&](unsigned vci) {
    count += engines_[vci]->progress();
    round = vcis_[vci].rounds.load(std::memory_order_relaxed) + 1;
    vcis_[vci].rounds.store(round, std::memory_order_relaxed);  // not atomic: a lost count does no harm
  });
  if (round % kRoundsPerPoll == 0) count += progress_others(mine);
  return count;
}

bool Vcis::is_unpolled(unsigned from, unsigned vci) noexcept {
  const std::uint32_t now = vcis_[vci].rounds.load(std::memory_order_relaxed);
  std::atomic<std::uint32_t>& seen = vcis_[from].seen[vci];
  if (seen.load(std::memory_order_relaxed) == now) return true;
  seen.store(now, std::memory_order_relaxed);
  return false;
}

std::size_t Vcis::progress_others(Set mine) noexcept {
  const auto from = static_cast<unsigned>(std::countr_zero(mine));
  std::size_t count = 0;
  for_each(all() & ~mine, [&](unsigned vci) {
    if (is_unpolled(from, vci)) count += engines_[vci]->glance();
  });
  return count;
}

bool Vcis::stalling(Set vcis) const noexcept {
  bool any = false;
  for_each(vcis, [&](unsigned vci) { any = any || engines_[vci]->stalling(); });
  return any;
}

void Vcis::wait(Set mine, Missing missing, void* object, const char* what) noexcept {
  // All Engines have the same observer; the first one numbers the waits.
  IdleObserver* const observer = engines_.front()->idle_observer_;
  const milliseconds timeout = observer == nullptr ? milliseconds{-1} : observer->period;
  std::uint64_t wait_number = 0;
  int polls = 0;
  milliseconds longest{1};
  auto next_report = opal::Deadline::never();
  while (missing(object)) {
    if (progress_own(mine) != 0) continue;
    if (polls < first_polls_) {
      if (++polls < first_polls_) continue;
      next_report = opal::Deadline::after(timeout);
    }
    // 0: nothing came during the spin phase.  A condition that has come true counts as an event.
    const std::size_t found =
        am::spin(waits_, yield_policy_, next_report, [&] { return missing(object) ? progress_own(mine) : 1; });
    if (found != 0) continue;
    // What back-pressure holds up has no event that ends it: look every millisecond.
    sleep(mine, missing, object, stalling(all()) ? milliseconds{1} : longest);
    longest = progress_others(mine) != 0 ? milliseconds{1} : std::min(2 * longest, kLongestSleep);
    if (observer == nullptr || !next_report.expired()) continue;
    if (wait_number == 0) wait_number = engines_.front()->idle_waits_.fetch_add(1, std::memory_order_relaxed) + 1;
    observer->on_idle(wait_number, what);
    next_report = opal::Deadline::after(timeout);
  }
}

void Vcis::sleep(Set mine, Missing missing, void* object, milliseconds longest) noexcept {
  std::array<am::Context*, kMost> own{};
  std::array<am::Context*, kMost> others{};
  std::size_t own_count = 0;
  std::size_t other_count = 0;
  const auto from = static_cast<unsigned>(std::countr_zero(mine));
  for (unsigned vci = 0; vci < count(); ++vci) {
    am::Context& context = engines_[vci]->context();
    if ((mine >> vci & 1) != 0) {
      own[own_count++] = &context;
    } else if (is_unpolled(from, vci)) {
      others[other_count++] = &context;
    }
  }
  // lost_elsewhere() and halt() set it before they wake sleepers: a change means that the wake-up may have been missed.
  const bool stalled = stalling(mine);
  am::Context::sleep_on(
      {own.data(), own_count}, {others.data(), other_count},
      [&]() noexcept { return missing(object) && stalling(mine) == stalled; }, longest);
}

void Vcis::progress_or_yield(Set mine) noexcept {
  if (count() == 1) [[likely]]
    return engines_.front()->progress_or_yield();
  if (progress_own(mine) == 0) engines_[static_cast<unsigned>(std::countr_zero(mine))]->yield_core();
}

std::size_t Vcis::progress() noexcept {
  std::size_t count = 0;
  for (Engine* engine : engines_) count += engine->progress();
  return count;
}

void Vcis::wake_sleepers() noexcept {
  for (Engine* engine : engines_) engine->context().wake_sleepers();
}

std::size_t Engine::poll_all_vcis() noexcept { return vcis_->progress_own(Vcis::Set{1} << vci_); }

void Engine::wait_on_vcis(bool (*missing)(void*) noexcept, void* object, const char* what) noexcept {
  vcis_->wait(Vcis::Set{1} << vci_, missing, object, what);
}

}  // namespace mpi_shim::p2p
