// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/process/checkpoint.hpp"

#include <chrono>

#include "mpi_shim/rma/windows.hpp"

namespace mpi_shim {
namespace {

// Sleep between two polls while other ranks still send; their messages wait at most this long.
constexpr std::chrono::milliseconds kBetweenPolls{1};
constexpr int kMostRounds = 64;  // rounds of progress of one VCI per poll

}  // namespace

Checkpoint::Checkpoint(runtime::Client& client, const Vci::All& vcis) : client_(client), vcis_(vcis) {
  client_.on_checkpoint([this](const Step& step) { ask(step); });
}

Checkpoint::~Checkpoint() {
  client_.on_checkpoint({});
  for (const auto& vci : vcis_) vci->engine().halt(nullptr);  // a late request may have set it
}

void Checkpoint::ask(const Step& step) noexcept {
  {
    const std::lock_guard guard{mutex_};
    asked_ = step;
    ++requests_;
  }
  changed_.notify_all();
  p2p::Halt* const halt = step.kind == Step::Kind::resume ? nullptr : this;
  for (const auto& vci : vcis_) vci->engine().halt(halt);
}

void Checkpoint::wait() noexcept {
  std::unique_lock lock{mutex_};
  if (busy_) return changed_.wait(lock, [this] { return !busy_; });
  if (asked_.kind == Step::Kind::resume) return;
  busy_ = true;
  while (asked_.kind != Step::Kind::resume) carry_out(Step{asked_}, lock);
  lock.unlock();
  resume();
  lock.lock();
  busy_ = false;
  changed_.notify_all();
}

void Checkpoint::carry_out(const Step& step, std::unique_lock<std::mutex>& lock) noexcept {
  const auto is_over = [this, request = requests_] { return requests_ != request; };
  bool answered = false;
  while (!is_over()) {
    lock.unlock();
    begin(step.round);
    if (drain() && !answered) {
      const Result<void> done = step.kind == Step::Kind::checkpoint ? empty_caches() : Result<void>{};
      client_.answer_checkpoint(step, done ? std::string{} : to_string(done.error()));
      answered = true;
    }
    lock.lock();
    if (answered && step.kind == Step::Kind::checkpoint) {
      changed_.wait(lock, is_over);
    } else {  // poll again: other ranks may still need progress of this one
      changed_.wait_for(lock, kBetweenPolls, is_over);
    }
  }
}

void Checkpoint::begin(std::uint64_t round) noexcept {
  if (round_ == round) return;
  if (round_ != 0) resume();
  round_ = round;
  for (const auto& vci : vcis_) vci->context().quiesce(round);
}

void Checkpoint::resume() noexcept {
  for (const auto& vci : vcis_) vci->context().resume();
  round_ = 0;
}

/// Progresses all VCIs.  Returns whether nothing is in flight.
bool Checkpoint::drain() noexcept {
  bool quiet = true;
  for (const auto& vci : vcis_) {
    p2p::Engine& engine = vci->engine();
    for (int round = 0; round < kMostRounds && engine.glance() != 0; ++round) continue;
    const am::Lock::Guard guard{engine.lock()};
    quiet = vci->context().quiet() && !engine.is_fetching() && !vci->windows().is_transferring() && quiet;
  }
  return quiet;
}

/// Empties the registration caches.  `busy` is no error here: the memory of offers without a receive, and of windows,
/// stays registered.
Result<void> Checkpoint::empty_caches() noexcept {
  Result<void> all;
  for (const auto& vci : vcis_) {
    if (auto done = vci->context().checkpoint(); !done && done.error().code != Errc::busy) all = done;
  }
  return all;
}

}  // namespace mpi_shim
