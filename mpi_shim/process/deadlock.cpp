// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/process/deadlock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

#include "mpi_shim/p2p/wire.hpp"

namespace mpi_shim {
namespace {

constexpr std::size_t kMostNamed = 4;      // operations in the text of a report
constexpr std::size_t kMostWaitedFor = 8;  // ranks in a report
constexpr std::size_t kMostText = 600;     // bytes of the text

/// The header of a report to rank 0 (wire::kWaiting); the text follows.
struct Report {
  std::int32_t rank;
  std::int32_t reserved;
  std::uint64_t state;                                 ///< changes with the rank's operations and messages
  std::array<std::int32_t, kMostWaitedFor> waits_for;  ///< ranks; -1: unused
};
static_assert(std::has_unique_object_representations_v<Report>, "goes out as bytes");

std::uint64_t mixed(std::uint64_t state, std::uint64_t value) noexcept {
  return (state ^ value) * 0x9e3779b97f4a7c15U + (state >> 29);
}

}  // namespace

Result<std::unique_ptr<DeadlockDetector>> DeadlockDetector::start(p2p::Vcis& vcis,
                                                                  std::span<p2p::Peer* const> processes, int rank,
                                                                  std::chrono::milliseconds period, Namer namer) {
  std::unique_ptr<DeadlockDetector> watch{new DeadlockDetector{vcis, processes, rank, period, std::move(namer)}};
  OPAL_TRY(vcis.engine(0).context().set_handler(
      p2p::wire::kWaiting, btl::bind<&DeadlockDetector::on_report>(*watch, "mpi deadlock report")));
  for (unsigned vci = 0; vci < vcis.count(); ++vci) vcis.engine(vci).set_idle_observer(watch.get());
  return watch;
}

DeadlockDetector::DeadlockDetector(p2p::Vcis& vcis, std::span<p2p::Peer* const> processes, int rank,
                                   std::chrono::milliseconds period, Namer namer)
    : IdleObserver{period},
      vcis_(vcis),
      processes_(processes),
      rank_(rank),
      namer_(std::move(namer)),
      reports_(rank == 0 ? processes_.size() : 0) {}

DeadlockDetector::~DeadlockDetector() {
  for (unsigned vci = 0; vci < vcis_.count(); ++vci) vcis_.engine(vci).set_idle_observer(nullptr);
  vcis_.engine(0).context().clear_handler(p2p::wire::kWaiting);
}

void DeadlockDetector::on_idle(std::uint64_t wait, const char* what) noexcept {
  {
    const am::Lock::Guard guard{vcis_.lock()};
    const Clock::time_point now = Clock::now();
    if (now - told_ < period) return;  // several threads wait, or stalled operations cause more calls
    told_ = now;
  }
  std::uint64_t state = mixed(0, wait);
  std::string text;
  std::vector<int> waits_for;
  std::size_t operations = 0;
  for (unsigned vci = 0; vci < vcis_.count(); ++vci) {
    p2p::Engine& engine = vcis_.engine(vci);
    const am::Lock::Guard guard{engine.lock()};
    const p2p::Engine::Waiting waiting = engine.waiting();
    if (waiting.moving) return;  // data are on their way
    state = mixed(state, waiting.state);
    for (const p2p::Engine::Waiting::Operation& one : waiting.operations) {
      state = mixed(mixed(state, one.id), one.channel->context);
      if (one.peer != nullptr && waits_for.size() < kMostWaitedFor) waits_for.push_back(one.peer->process);
      if (++operations > kMostNamed) continue;
      text += fmt::format("{}{} {} on {}", operations == 1 ? "" : "; ", one.sends ? "to send" : "for a message",
                          one.peer == nullptr ? std::string{"from any rank"}
                                              : fmt::format("{} rank {}", one.sends ? "to" : "from", one.peer->process),
                          namer_(*one.channel));
      if (one.tag >= 0 && one.channel->context % 2 == 0) text += fmt::format(", tag {}", one.tag);
    }
  }
  if (operations > kMostNamed) text += "; and more";
  if (text.empty()) text = what != nullptr ? what : "for something that is no message";
  text.resize(std::min(text.size(), kMostText));
  if (rank_ == 0) return record(0, state, std::move(text), std::move(waits_for));
  Report report{rank_, 0, state, {}};
  report.waits_for.fill(-1);
  std::copy(waits_for.begin(), waits_for.end(), report.waits_for.begin());
  p2p::Peer& first = *processes_.front();
  const am::Lock::Guard guard{vcis_.engine(0).lock()};
  if (vcis_.engine(0).reach(first) != MPI_SUCCESS) return;
  // Not queued, since rank 0 may be busy for hours: a report that is not sent now is repeated after the next period.
  (void)first.endpoint->send_inline(p2p::wire::kWaiting, bytes_of(report), ByteSpan{std::as_bytes(std::span{text})});
}

void DeadlockDetector::on_report(btl::Delivery& delivery) noexcept {
  Report report{};
  if (rank_ != 0 || !read_object(delivery.data, report)) return;
  const auto from = static_cast<std::size_t>(report.rank);
  // recognise(): it may be the first message from this rank.
  if (from >= processes_.size() || !vcis_.engine(0).recognise(*processes_[from], am::sender(delivery))) return;
  const ByteSpan text = delivery.data.subspan(sizeof report);
  std::vector<int> waits_for;
  for (const std::int32_t rank : report.waits_for) {
    if (rank >= 0 && static_cast<std::size_t>(rank) < processes_.size()) waits_for.push_back(rank);
  }
  record(from, report.state, {reinterpret_cast<const char*>(text.data()), std::min(text.size(), kMostText)},
         std::move(waits_for));
}

void DeadlockDetector::record(std::size_t from, std::uint64_t state, std::string text, std::vector<int> waits_for) {
  const am::Lock::Guard guard{vcis_.lock()};
  LastReport& latest = reports_[from];
  const Clock::time_point now = Clock::now();
  const bool again = latest.state == state && now - latest.last < 3 * period;
  latest = {state, again ? latest.times + 1 : 1, now, std::move(text), std::move(waits_for)};
  report_if_all_wait();
}

void DeadlockDetector::report_if_all_wait() {
  const Clock::time_point now = Clock::now();
  std::uint64_t all = 1;
  for (const LastReport& latest : reports_) {
    if (latest.times < 2 || now - latest.last >= 2 * period) return;
    all = mixed(all, latest.state);
  }
  if (all == reported_) return;
  reported_ = all;
  std::string text =
      fmt::format("MPI: all {} ranks have been waiting for more than {} ms, and nothing is on its way{}\n",
                  reports_.size(), period.count(), cycle());
  for (std::size_t rank = 0; rank < reports_.size(); ++rank) {
    text += fmt::format("  rank {} waits {}\n", rank, reports_[rank].text);
  }
  std::fputs(text.c_str(), stderr);
}

/// ": rank 0 -> 2 -> 0", a cycle of the first ranks that each rank waits for; empty: there is none.
std::string DeadlockDetector::cycle() const {
  const auto next = [&](std::size_t rank) {
    const std::vector<int>& waits_for = reports_[rank].waits_for;
    return waits_for.empty() ? reports_.size() : static_cast<std::size_t>(waits_for.front());
  };
  for (std::size_t start = 0; start < reports_.size(); ++start) {
    // A walk of as many steps as there are ranks ends within a cycle, unless it reaches a rank that waits for none.
    std::size_t at = start;
    for (std::size_t step = 0; step < reports_.size() && at < reports_.size(); ++step) at = next(at);
    if (at == reports_.size()) continue;
    std::string text = fmt::format(": rank {}", at);
    for (std::size_t rank = next(at); rank != at; rank = next(rank)) text += fmt::format(" -> {}", rank);
    return text + fmt::format(" -> {}", at);
  }
  return {};
}

}  // namespace mpi_shim
