// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/comm/creation/agreement.hpp"

#include <algorithm>

#include "mpi_shim/coll/algorithms/algorithms.hpp"
#include "mpi_shim/datatype/construction/predefined.hpp"

namespace mpi_shim::comm {

Participants Participants::of_all(Communicator& comm) {
  const am::Lock::Guard guard{comm.engine().lock()};
  return {comm, comm.all_processes(), comm.next_collective_tag()};
}

int private_tag(std::uint64_t common) noexcept {
  // The two largest negative numbers are wildcards.
  const std::uint64_t mixed = (common * 0x9e3779b97f4a7c15U) >> 32;
  return INT32_MIN + static_cast<int>(mixed % static_cast<std::uint64_t>(INT32_MAX - 2));
}

void IdAgreement::start(const Watcher& watcher) {
  watcher_ = watcher;
  {
    const am::Lock::Guard guard{communicators_.job().lock()};
    mine_ = communicators_.ids().reserve_free(0);
  }
  find_maximum();
}

void IdAgreement::find_maximum() {
  static const datatype::Datatype& int64 = *datatype::predefined(reinterpret_cast<std::uintptr_t>(MPI_INT64_T));
  static const op::Op& max = *op::predefined(reinterpret_cast<std::uintptr_t>(MPI_MAX));
  // The maximum gives the largest and the smallest number and the smallest count of VCIs.
  values_ = {mine_, -std::int64_t{mine_}, -std::int64_t{communicators_.job().vcis().count()}};
  const p2p::Buffer buffer{values_.data(), values_.size(), int64};
  // One tag for all rounds: each pair's messages stay in order, and no process is a round ahead of a partner's
  // receives.
  coll::Schedule& schedule =
      participants_.comm.vci().scheduler().begin(participants_.comm, participants_.team, participants_.tag);
  coll::build_allreduce(schedule, buffer, buffer, max);
  schedule.set_watcher({[](void* self, Request& done) noexcept {
                          auto& agreement = *static_cast<IdAgreement*>(self);
                          const int error = done.outcome().error;
                          done.put_back();
                          if (error != MPI_SUCCESS) return agreement.end(error);
                          agreement.found();
                        },
                        this});
  schedule.start();
}

void IdAgreement::found() noexcept {
  vcis_ = static_cast<unsigned>(-values_[2]);
  if (values_[0] == -values_[1]) return end(MPI_SUCCESS);
  const auto highest = static_cast<std::uint32_t>(values_[0]);
  ++rounds_;
  if (highest != mine_) {
    const am::Lock::Guard guard{communicators_.job().lock()};
    IdTable& ids = communicators_.ids();
    ids.release(mine_);
    mine_ = ids.reserve(highest) ? highest : ids.reserve_free(highest + 1 + distance());
  }
  find_maximum();
}

/// Two agreements that the processes began in different orders would refuse each other for ever if both went on with
/// the next number.  All participants compute the same distance.
std::uint32_t IdAgreement::distance() const noexcept {
  const std::uint64_t agreement =
      std::uint64_t{participants_.comm.id()} << 32 | static_cast<std::uint32_t>(participants_.tag);
  const std::uint64_t mixed = (agreement * 0x9e3779b97f4a7c15U) ^ (rounds_ * 0xbf58476d1ce4e5b9U);
  return static_cast<std::uint32_t>((mixed >> 33) % (std::uint64_t{4} << std::min(rounds_, 8U)));
}

void IdAgreement::end(int error) noexcept {
  if (error != MPI_SUCCESS) release();
  error_ = error;
  const Watcher watcher = watcher_;
  over_.store(true, std::memory_order_release);  // a waiter in another thread may end this object now
  if (watcher.fn != nullptr) watcher.fn(watcher.object, *this);
}

/// In turn; the first VCI, which has MPI_COMM_WORLD, comes last.
Number IdAgreement::number() const noexcept { return {mine_, (mine_ - 1) % vcis_}; }

void IdAgreement::release() noexcept {
  const am::Lock::Guard guard{communicators_.job().lock()};
  communicators_.ids().release(mine_);
}

Made make_agreed(Communicators& communicators, const Participants& participants, Sides sides,
                 ErrhandlerRef errhandler) {
  communicators.sweep();  // numbers that can be had again
  IdAgreement agreement{communicators, participants};
  agreement.start({});
  participants.comm.engine().wait_until([&] { return agreement.over(); });
  if (agreement.error() != MPI_SUCCESS) return {agreement.error()};
  if (sides.own == nullptr) {
    agreement.release();
    return {};
  }
  auto slot = handle::Slot<Communicator>::reserve();
  if (!slot) {
    agreement.release();
    return {MPI_ERR_NO_MEM};
  }
  Communicator& made = communicators.create(std::move(*slot), agreement.number(), std::move(sides));
  made.errhandler.set(std::move(errhandler));
  return {MPI_SUCCESS, &made};
}

}  // namespace mpi_shim::comm
