// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/p2p/waits/vcis.hpp"

#include <algorithm>
#include <bit>

#include "opal/am/sleep.hpp"
#include "opal/am/spin.hpp"
#include "opal/core/clock.hpp"

namespace mpi_shim::p2p {
namespace {

using std::chrono::milliseconds;

// The longest sleep.  Another thread may have polled a VCI that no thread polls now, and thereby have taken back that
// its next message wakes this one.
constexpr milliseconds kLongestNap{8};

/// Calls `visit` with the number of each VCI of the set.
template <class Visit>
void for_each(Vcis::Set vcis, Visit visit) {
  for (; vcis != 0; vcis &= vcis - 1) visit(static_cast<unsigned>(std::countr_zero(vcis)));
}

}  // namespace

void Vcis::join(Engine& engine) {
  engine.vci_ = count();
  engines_.push_back(&engine);
  for (Engine* one : engines_) one->vcis_ = count() > 1 ? this : nullptr;
}

std::size_t Vcis::look(Set mine) noexcept {
  std::size_t count = 0;
  std::uint32_t round = 0;
  for_each(mine, [&](unsigned vci) {
    count += engines_[vci]->progress();
    round = vcis_[vci].rounds.load(std::memory_order_relaxed) + 1;
    vcis_[vci].rounds.store(round, std::memory_order_relaxed);  // a round lost to another thread is no loss
  });
  if (round % kRoundsPerLook == 0) count += look_at_others(mine);
  return count;
}

bool Vcis::is_left_alone(unsigned from, unsigned vci) noexcept {
  const std::uint32_t now = vcis_[vci].rounds.load(std::memory_order_relaxed);
  std::atomic<std::uint32_t>& seen = vcis_[from].seen[vci];
  if (seen.load(std::memory_order_relaxed) == now) return true;
  seen.store(now, std::memory_order_relaxed);
  return false;
}

std::size_t Vcis::look_at_others(Set mine) noexcept {
  const auto from = static_cast<unsigned>(std::countr_zero(mine));
  std::size_t count = 0;
  for_each(all() & ~mine, [&](unsigned vci) {
    if (is_left_alone(from, vci)) count += engines_[vci]->glance();
  });
  return count;
}

bool Vcis::stalling(Set vcis) const noexcept {
  bool any = false;
  for_each(vcis, [&](unsigned vci) { any = any || engines_[vci]->stalling(); });
  return any;
}

void Vcis::wait(Set mine, Missing missing, void* object, const char* what) noexcept {
  IdleObserver* const watch = engines_.front()->idle_observer_;
  const milliseconds timeout = watch == nullptr ? milliseconds{-1} : watch->period;
  std::uint64_t wait = 0;
  int looks = 0;
  milliseconds nap{1};
  auto idle = opal::Deadline::never();
  while (missing(object)) {
    if (look(mine) != 0 || ++looks < first_looks_) continue;
    if (looks == first_looks_) idle = opal::Deadline::after(timeout);
    const std::size_t found = am::spin(waits_, yield_policy_, idle, [&] { return missing(object) ? look(mine) : 1; });
    if (found != 0) continue;
    sleep(mine, missing, object, stalling(all()) ? milliseconds{1} : nap);
    nap = look_at_others(mine) != 0 ? milliseconds{1} : std::min(2 * nap, kLongestNap);
    if (watch == nullptr || !idle.expired()) continue;
    if (wait == 0) wait = engines_.front()->idle_waits_.fetch_add(1, std::memory_order_relaxed) + 1;
    watch->look(wait, what);
    idle = opal::Deadline::after(timeout);
  }
}

void Vcis::sleep(Set mine, Missing missing, void* object, milliseconds longest) noexcept {
  std::array<am::Context*, kMost> own{};
  std::array<am::Context*, kMost> others{};
  std::size_t owns = 0;
  std::size_t rest = 0;
  const auto from = static_cast<unsigned>(std::countr_zero(mine));
  for (unsigned vci = 0; vci < count(); ++vci) {
    am::Context& context = engines_[vci]->context();
    if ((mine >> vci & 1) != 0) {
      own[owns++] = &context;
    } else if (is_left_alone(from, vci)) {
      others[rest++] = &context;
    }
  }
  const bool stalled = stalling(mine);
  am::Sleep::on(
      {own.data(), owns}, {others.data(), rest},
      [&]() noexcept { return missing(object) && stalling(mine) == stalled; }, longest);
}

void Vcis::poll(Set mine) noexcept {
  if (count() == 1) [[likely]]
    return engines_.front()->poll();
  if (look(mine) == 0) engines_[static_cast<unsigned>(std::countr_zero(mine))]->give_way();
}

std::size_t Vcis::progress() noexcept {
  std::size_t count = 0;
  for (Engine* engine : engines_) count += engine->progress();
  return count;
}

void Vcis::wake_sleepers() noexcept {
  for (Engine* engine : engines_) engine->context().wake_sleepers();
}

std::size_t Engine::look_on_vcis() noexcept { return vcis_->look(Vcis::Set{1} << vci_); }

void Engine::wait_on_vcis(bool (*missing)(void*) noexcept, void* object, const char* what) noexcept {
  vcis_->wait(Vcis::Set{1} << vci_, missing, object, what);
}

}  // namespace mpi_shim::p2p
