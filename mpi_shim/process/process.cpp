// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/process/process.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "mpi_shim/coll/algorithms/algorithms.hpp"
#include "mpi_shim/coll/config.hpp"
#include "mpi_shim/coll/host/team.hpp"
#include "mpi_shim/coll/run.hpp"
#include "mpi_shim/datatype/construction/predefined.hpp"
#include "mpi_shim/info/info.hpp"
#include "mpi_shim/process/checkpoint.hpp"
#include "mpi_shim/process/config.hpp"
#include "mpi_shim/process/deadlock.hpp"
#include "mpi_shim/process/raise.hpp"
#include "mpi_shim/rma/windows.hpp"
#include "opal/core/config/store.hpp"

namespace mpi_shim {
namespace {

std::atomic<Process::State> state_now{Process::State::not_started};

/// Sets am_ranks_per_core in `store`, unless it is configured, from the number of ranks and cores of this host.
Result<void> count_ranks_per_core(config::Store& store, unsigned ranks) {
  OPAL_TRY_ASSIGN(const am::Config config, store.load(am::kGroup));
  const auto cores = static_cast<unsigned>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  const unsigned per_core = config.ranks_per_core != 0 ? config.ranks_per_core : (ranks + cores - 1) / cores;
  if (config.ranks_per_core == 0) store.set("am_ranks_per_core", std::to_string(per_core));
  return {};
}

/// The number of VCIs of a process of MPI_THREAD_MULTIPLE.
unsigned count_vcis(const Config& config, unsigned processes_here) noexcept {
  if (config.vcis != 0) return config.vcis;
  cpu_set_t allowed;
  const auto cores = static_cast<unsigned>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  // A bound process is assumed to have its cores to itself.
  const bool bound =
      ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 && static_cast<unsigned>(CPU_COUNT(&allowed)) < cores;
  return std::clamp(bound ? static_cast<unsigned>(CPU_COUNT(&allowed)) : cores / processes_here, 2U, 4U);
}

}  // namespace

Process* Process::current_ = nullptr;

Process::State Process::state() noexcept { return state_now.load(std::memory_order_acquire); }

Result<void> Process::start(int thread_level) {
  std::unique_ptr<Process> process{new Process};
  OPAL_TRY(process->join(thread_level));
  current_ = process.release();
  state_now.store(State::running, std::memory_order_release);
  return {};
}

Result<void> Process::stop() {
  const std::unique_ptr<Process> process{std::exchange(current_, nullptr)};
  state_now.store(State::finished, std::memory_order_release);
  process->checkpoint_.reset();  // before finalize(): it uses the client
  return process->job().client().finalize();
}

Result<void> Process::join(int thread_level) {
  thread_level_ = thread_level;
  config::Store store = config::Store::from_environment();
  Vci::Settings settings;
  OPAL_TRY_ASSIGN(settings.messages, store.load(p2p::kGroup));
  OPAL_TRY_ASSIGN(const Config config, store.load(kGroup));
  reports_leaks_ = config.leak_report;
  OPAL_TRY_ASSIGN(settings.windows, store.load(rma::kGroup));
  OPAL_TRY_ASSIGN(settings.collectives, store.load(coll::kGroup));
  OPAL_TRY_ASSIGN(std::unique_ptr<runtime::Client> client, runtime::Client::open());
  const unsigned processes_here = client->local_size();
  OPAL_TRY(count_ranks_per_core(store, processes_here));
  OPAL_TRY_ASSIGN(settings.waits, store.load(am::kGroup));
  OPAL_TRY_ASSIGN(settings.secret, client->secret(store));
  // The helper for one-sided accesses is a second thread: if it may be started, the locks must be real ones.
  const bool hosts = processes_here < client->size();
  settings.helper = settings.windows.helper == "on" || (settings.windows.helper == "auto" && hosts);
  settings.threads = thread_level == MPI_THREAD_MULTIPLE || settings.helper;
  job_.emplace(std::move(client), settings.waits,
               settings.threads ? am::ThreadLevel::multiple : am::ThreadLevel::single);
  const unsigned vcis = thread_level == MPI_THREAD_MULTIPLE ? count_vcis(config, processes_here) : 1;
  while (job_->all_vcis().size() < vcis) {
    OPAL_TRY(Vci::open(job_->all_vcis(), job_->vcis(), job_->client(), store, settings));
  }
  buffer_.emplace(job_->vcis());

  datatype::publish_predefined_types();
  op::publish_predefined_ops();
  info::publish_environment(job_->size(), thread_level);
  communicators_.emplace(*job_);

  if (config.deadlock_report.count() != 0) {
    OPAL_TRY_ASSIGN(deadlock_detector_,
                    DeadlockDetector::start(
                        job_->vcis(), communicators_->world().user().peers, job_->rank(), config.deadlock_report,
                        [this](const p2p::Channel& channel) { return communicators_->describe(channel); }));
  }

  // A transport reports the death of a peer to which it has a connection; the launcher reports the other ones.
  job_->client().on_death([this](unsigned rank) {
    for (const auto& vci : job_->all_vcis()) vci->engine().lost_elsewhere(vci->peer(static_cast<int>(rank)));
  });

  checkpoint_ = std::make_unique<Checkpoint>(job_->client(), job_->all_vcis());

  for (const auto& vci : job_->all_vcis()) OPAL_TRY(vci->publish());
  OPAL_TRY(job_->client().commit());
  OPAL_TRY(job_->client().fence());  // afterwards the addresses of all processes are published
  coll::HostTeam::make_at_init(*job_, communicators_->world());
  return {};
}

Process::~Process() {
  checkpoint_.reset();
  if (job_) job_->client().on_death({});
  deadlock_detector_.reset();
}

Result<void> Process::leave() {
  for (const auto& vci : job_->all_vcis()) vci->windows().end_helper();
  comm::Communicator& world = communicators_->world();
  communicators_->self().attributes.clear_all(MPI_COMM_SELF);  // the standard's hook for callbacks at MPI_Finalize
  world.attributes.clear_all(MPI_COMM_WORLD);
  report_leaks();  // after the delete callbacks, in which libraries free their objects
  communicators_->flush_buffers();
  buffer_->flush();
  // Every message is received before its sender leaves this barrier...
  const int barrier = coll::run(world, [](coll::Schedule& schedule) { coll::build_barrier(schedule); });
  // ... and the barrier's own messages before any process leaves the fence.
  OPAL_TRY(job_->client().fence_while([this] {
    if (job_->vcis().progress() == 0) std::this_thread::yield();
  }));
  if (barrier != MPI_SUCCESS) return Error{Errc::unreachable, 0, "MPI_Finalize: not every process could be reached"};
  return {};
}

}  // namespace mpi_shim
