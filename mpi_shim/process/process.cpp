// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/process/process.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <numeric>
#include <sstream>
#include <string>
#include <utility>

#include "mpi_shim/attribute/type_attributes.hpp"
#include "mpi_shim/coll/barrier.hpp"
#include "mpi_shim/coll/config.hpp"
#include "mpi_shim/coll/run.hpp"
#include "mpi_shim/process/checkpoint.hpp"
#include "mpi_shim/process/config.hpp"
#include "mpi_shim/process/deadlock.hpp"
#include "mpi_shim/process/leaks.hpp"
#include "mpi_shim/process/raise.hpp"
#include "mpi_shim/datatype/construction/predefined.hpp"
#include "mpi_shim/info/environment.hpp"
#include "mpi_shim/rma/windows.hpp"
#include "opal/core/config/store.hpp"

namespace mpi_shim {
namespace {

std::atomic<Process::Life> life_now{Process::Life::not_started};

constexpr std::uint32_t kWorldId = 0;
constexpr std::uint32_t kSelfId = 1;

/// How many ranks of this host share a core, if nobody has said so: waits must know whether to keep theirs.
Result<void> count_ranks_per_core(config::Store& store, unsigned ranks) {
  OPAL_TRY_ASSIGN(const am::Config config, store.load(am::kGroup));
  const auto cores = static_cast<unsigned>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  const unsigned per_core = config.ranks_per_core != 0 ? config.ranks_per_core : (ranks + cores - 1) / cores;
  if (config.ranks_per_core == 0) store.set("am_ranks_per_core", std::to_string(per_core));
  return {};
}

/// How many VCIs several threads are given.
unsigned count_vcis(const Config& config, unsigned processes_here) noexcept {
  if (config.vcis != 0) return config.vcis;
  cpu_set_t allowed;
  const auto cores = static_cast<unsigned>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  // Whoever is bound has its cores to itself, as far as anybody can know.
  const bool bound =
      ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 && static_cast<unsigned>(CPU_COUNT(&allowed)) < cores;
  return std::clamp(bound ? static_cast<unsigned>(CPU_COUNT(&allowed)) : cores / processes_here, 2U, 4U);
}

}  // namespace

Process* Process::current_ = nullptr;

Process::Life Process::life() noexcept { return life_now.load(std::memory_order_acquire); }

Result<void> Process::start(int thread_level) {
  std::unique_ptr<Process> process{new Process};
  OPAL_TRY(process->join(thread_level));
  current_ = process.release();
  life_now.store(Life::running, std::memory_order_release);
  return {};
}

Result<void> Process::stop() {
  const std::unique_ptr<Process> process{std::exchange(current_, nullptr)};
  life_now.store(Life::finished, std::memory_order_release);
  process->checkpoint_.reset();  // while the launcher still hears it
  return process->client_->finalize();
}

Result<void> Process::join(int thread_level) {
  thread_level_ = thread_level;
  config::Store store = config::Store::from_environment();
  Vci::Settings settings;
  OPAL_TRY_ASSIGN(settings.messages, store.load(p2p::kGroup));
  OPAL_TRY_ASSIGN(const Config config, store.load(kGroup));
  reports_leaks_ = config.leak_report;
  type_attributes_ = std::make_unique<attribute::TypeAttributes>();
  OPAL_TRY_ASSIGN(settings.windows, store.load(rma::kGroup));
  OPAL_TRY_ASSIGN(settings.collectives, store.load(coll::kGroup));
  OPAL_TRY_ASSIGN(client_, runtime::Client::open());
  OPAL_TRY(count_ranks_per_core(store, client_->local_size()));
  OPAL_TRY_ASSIGN(waits_, store.load(am::kGroup));
  settings.waits = waits_;
  OPAL_TRY_ASSIGN(settings.secret, client_->secret(store));
  // A helper of one-sided accesses is a second thread: where it may come, the lock has to be there from the start.
  const bool hosts = client_->local_size() < client_->size();
  settings.helper = settings.windows.helper == "on" || (settings.windows.helper == "auto" && hosts);
  settings.threads = thread_level == MPI_THREAD_MULTIPLE || settings.helper;
  engines_ =
      std::make_unique<p2p::Vcis>(waits_, settings.threads ? am::ThreadLevel::multiple : am::ThreadLevel::single);
  const unsigned vcis = thread_level == MPI_THREAD_MULTIPLE ? count_vcis(config, client_->local_size()) : 1;
  while (vcis_.size() < vcis) {
    OPAL_TRY(Vci::open(vcis_, *engines_, *client_, store, settings));
  }
  buffer_ = std::make_unique<p2p::AttachedBuffer>(*engines_);

  opal::mpi::set_raise_hook(raise);
  datatype::publish_predefined_types();
  op::publish_predefined_ops();
  info::publish_environment(size(), thread_level);

  std::vector<int> all(client_->size());
  std::iota(all.begin(), all.end(), 0);
  ids_.reserve(kWorldId);
  ids_.reserve(kSelfId);
  initial_errhandler_ = std::make_shared<const comm::Errhandler>();
  const auto make = [&](MPI_Comm handle, std::uint32_t id, std::vector<int> members, const char* name) {
    auto made = std::make_unique<comm::Communicator>(
        handle, id, comm::Sides{std::make_shared<const comm::Group>(std::move(members), rank()), nullptr}, first_vci());
    made->errhandler.set(initial_errhandler_);
    made->name = name;
    return made;
  };
  world_ = make(MPI_COMM_WORLD, kWorldId, std::move(all), "MPI_COMM_WORLD");
  self_ = make(MPI_COMM_SELF, kSelfId, {rank()}, "MPI_COMM_SELF");

  if (config.deadlock_report.count() != 0) {
    std::vector<p2p::Peer*> everybody;
    everybody.reserve(static_cast<std::size_t>(size()));
    for (int i = 0; i < size(); ++i) everybody.push_back(&first_vci().peer(i));
    OPAL_TRY_ASSIGN(deadlock_watch_,
                    DeadlockDetector::start(*engines_, std::move(everybody), rank(), config.deadlock_report,
                                            [this](const p2p::Channel& channel) { return name_of(channel); }));
  }

  // A transport reports the death of a peer to which it has a connection; the launcher reports the other ones.
  client_->on_death([this](unsigned rank) {
    for (const auto& vci : vcis_) vci->engine().lost_elsewhere(vci->peer(static_cast<int>(rank)));
  });

  checkpoint_ = std::make_unique<Checkpoint>(*client_, vcis_);

  for (const auto& vci : vcis_) OPAL_TRY(vci->publish());
  OPAL_TRY(client_->commit());
  return client_->fence();  // nobody asks for an address that is not there yet
}

Process::~Process() {
  checkpoint_.reset();
  if (client_ != nullptr) client_->on_death({});
  deadlock_watch_.reset();
  freed_.clear();
  others_.clear();
  self_.reset();
  world_.reset();
  buffer_.reset();
  vcis_.clear();
  engines_.reset();
}

Result<void> Process::leave() {
  for (const auto& vci : vcis_) vci->windows().end_helper();
  self_->attributes.clear_all(MPI_COMM_SELF);  // the standard's hook for what has to run at the end
  world_->attributes.clear_all(MPI_COMM_WORLD);
  report_leaks();  // after that: libraries free their objects there
  flush_buffers();
  // Every message that anybody sends is received before its sender gets out of this barrier...
  const int barrier = coll::run(*world_, [](coll::Schedule& schedule) { coll::build_barrier(schedule); });
  // ... and the barrier's own messages before anybody gets out of the fence.
  OPAL_TRY(client_->fence_while([this] {
    if (engines_->progress() == 0) std::this_thread::yield();
  }));
  if (barrier != MPI_SUCCESS) return Error{Errc::unreachable, 0, "MPI_Finalize: not every process could be reached"};
  return {};
}

void Process::flush_buffers() noexcept {
  for (comm::Communicator* comm : {self_.get(), world_.get()}) comm->buffer.flush();
  for (const auto& comm : others_) comm->buffer.flush();
  for (const auto& comm : freed_) comm->buffer.flush();
  buffer_->flush();
}

void Process::report_leaks() const {
  if (!reports_leaks_) return;
  std::istringstream lines{describe_leaks()};
  for (std::string line; std::getline(lines, line);) {
    std::fprintf(stderr, "rank %d: MPI_Finalize: %s\n", rank(), line.c_str());
  }
  if (memory_ == nullptr) return;
  const opal::allocator::Allocator* blocks = guarded_memory_.get();
  if (blocks == nullptr) blocks = memory_.get();
  if (const opal::allocator::Usage usage = blocks->usage(); usage.blocks != 0) {
    std::fprintf(stderr, "rank %d: MPI_Finalize: %zu blocks of MPI_Alloc_mem not freed: %zu bytes\n", rank(),
                 usage.blocks, usage.used);
  }
}

std::string Process::name_of(const p2p::Channel& channel) const {
  const am::Lock::Guard guard{engines_->lock()};
  const auto name = [&](const comm::Communicator& comm) {
    const std::string own = comm.name.empty() ? fmt::format("a communicator of {}", comm.size()) : comm.name;
    return channel.context == 2 * comm.id() ? own : "a collective function of " + own;
  };
  for (const comm::Communicator* comm : {world_.get(), self_.get()}) {
    if (comm->id() == channel.context / 2) return name(*comm);
  }
  for (const auto* list : {&others_, &freed_}) {
    for (const auto& comm : *list) {
      if (comm->id() == channel.context / 2) return name(*comm);
    }
  }
  return "a communicator";
}

bool Process::is_main_thread() const noexcept { return std::this_thread::get_id() == main_thread_; }

Result<comm::Communicator*> Process::create_communicator(const comm::Number& number, comm::Sides sides) {
  OPAL_TRY_ASSIGN(handle::Slot<comm::Communicator> slot, handle::Slot<comm::Communicator>::reserve());
  return &create_communicator(std::move(slot), number, std::move(sides));
}

comm::Communicator& Process::create_communicator(handle::Slot<comm::Communicator> slot, const comm::Number& number,
                                                 comm::Sides sides) {
  handle::Ref<comm::Communicator> made =
      create_in(std::move(slot), MPI_COMM_NULL, number.id, std::move(sides), *vcis_[number.vci]);
  const am::Lock::Guard guard{lock()};
  others_.push_back(made);
  return *made.detach();  // the program's reference
}

void Process::free_communicator(comm::Communicator& communicator) noexcept {
  {
    const am::Lock::Guard guard{lock()};
    for (std::size_t i = 0; i < others_.size(); ++i) {
      if (others_[i].get() != &communicator) continue;
      communicator.retire();
      freed_.push_back(std::move(others_[i]));
      others_.erase(others_.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
  }
  sweep_communicators();
}

void Process::sweep_communicators() noexcept {
  std::vector<handle::Ref<comm::Communicator>> freed;
  {
    const am::Lock::Guard guard{lock()};
    freed.swap(freed_);
  }
  for (handle::Ref<comm::Communicator>& one : freed) {
    const bool busy = one->busy();
    const std::uint32_t id = one->id();
    if (!busy) one = {};  // closes its channels, under their VCI's lock
    const am::Lock::Guard guard{lock()};
    if (busy) {
      freed_.push_back(std::move(one));
    } else {
      ids_.release(id);  // only now: whoever gets the number opens channels of the same
    }
  }
}

Result<opal::allocator::Allocator*> Process::memory() {
  const am::Lock::Guard guard{lock()};
  if (memory_ == nullptr) {
    OPAL_TRY_ASSIGN(const auto config, config::Store::from_environment().load(opal::mpool::kGroup));
    // Local ranks can map it, so that large transfers and one-sided access to it need no system call.
    auto pool = opal::mpool::open("shared", config);
    if (!pool) pool = opal::mpool::open("heap", config);
    if (!pool) return pool.error();
    memory_ = std::move(*pool);
    if (config.guard) guarded_memory_ = std::make_unique<opal::allocator::Guarded>(*memory_);
  }
  if (guarded_memory_ != nullptr) return guarded_memory_.get();
  return memory_.get();
}

void Process::abort(int status, std::string_view text) noexcept { client_->abort(status, text); }

}  // namespace mpi_shim
