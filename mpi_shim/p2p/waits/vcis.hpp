// SPDX-License-Identifier: Apache-2.0
// mpi_shim/p2p/waits/vcis.hpp — the Engines of a process, one per VCI, and how its threads wait on them.
// A thread that waits progresses the VCIs on which what it waits for comes (its own), and polls every other one
// from time to time, unless another thread does: what moves there only by progress of this process, such as a
// rendezvous whose receiver computes, moves while any thread is inside of MPI (docs/design/vcis.md). Borrows the
// Engines. Threads: any, once all Engines have joined.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "mpi_shim/base/names.hpp"
#include "mpi_shim/p2p/engine.hpp"
#include "opal/am/config.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/sync/yield_policy.hpp"

namespace mpi_shim::p2p {

class Vcis {
 public:
  static constexpr unsigned kMost = 16;
  using Set = std::uint32_t;  ///< a bit for each VCI; the sets of waits and polls are not empty

  /// `waits`: how long a wait polls before it sleeps.
  Vcis(const am::Config& waits, am::ThreadLevel level)
      : waits_(waits), first_polls_(waits.ranks_per_core > 1 ? 4 : 200), lock_(level) {}

  /// The Engine becomes the next VCI; at most kMost.  Before there are other threads.
  void join(Engine& engine);

  /// Guards what belongs to no VCI.  A thread that holds it takes no VCI's lock.
  [[nodiscard]] am::Lock& lock() noexcept { return lock_; }

  [[nodiscard]] Engine& engine(unsigned vci) noexcept { return *engines_[vci]; }
  [[nodiscard]] unsigned count() const noexcept { return static_cast<unsigned>(engines_.size()); }
  [[nodiscard]] Set all() const noexcept { return (Set{1} << count()) - 1; }
  /// Those whose progress ends the request.
  [[nodiscard]] Set of(const Request& request) const noexcept {
    return request.engine() != nullptr ? Set{1} << request.engine()->vci() : all();
  }

  /// Waits until `condition()`, which comes true by progress of the VCIs `mine` or before wake_sleepers(); see
  /// Engine::wait_until.
  template <class Condition>
  void wait_until(Set mine, Condition condition, const char* what = nullptr) noexcept {
    if (count() == 1) [[likely]]
      return engines_.front()->wait_until(condition, what);
    wait(
        mine, [](void* object) noexcept -> bool { return !(*static_cast<Condition*>(object))(); }, &condition, what);
  }
  /// See Engine::wait.
  void wait(const Request& request, std::size_t awaited = 1) noexcept {
    if (count() == 1) [[likely]]
      return engines_.front()->wait(request, awaited);
    wait_until(of(request), [&] { return request.done(); });
  }

  /// See Engine::progress_or_yield().
  void progress_or_yield(Set mine) noexcept;
  /// A round of every VCI.
  std::size_t progress() noexcept;
  void wake_sleepers() noexcept;

 private:
  friend class Engine;
  /// Rounds of a waiting thread's own VCIs to one poll of the others.
  static constexpr std::uint32_t kRoundsPerPoll = 16;
  using Missing = bool (*)(void* object) noexcept;

  struct alignas(opal::kCacheLine) Vci {
    /// Counts the rounds of threads that wait here, roughly: while it changes, others need not poll the VCI.
    std::atomic<std::uint32_t> rounds{0};
    /// That of each other VCI when a thread of this one last polled it.
    std::array<std::atomic<std::uint32_t>, kMost> seen{};
  };

  void wait(Set mine, Missing missing, void* object, const char* what) noexcept;
  std::size_t progress_own(Set mine) noexcept;
  std::size_t progress_others(Set mine) noexcept;
  void sleep(Set mine, Missing missing, void* object, std::chrono::milliseconds longest) noexcept;
  [[nodiscard]] bool stalling(Set vcis) const noexcept;
  /// Whether no thread that waits on the VCI has progressed it since a thread of VCI `from` last called this; each call
  /// starts anew.
  bool is_unpolled(unsigned from, unsigned vci) noexcept;

  const am::Config waits_;
  const int first_polls_;  // of a wait before it reads a clock or yields its core
  am::Lock lock_;
  std::vector<Engine*> engines_;
  std::array<Vci, kMost> vcis_;
  opal::YieldPolicy yield_policy_;
};

}  // namespace mpi_shim::p2p
