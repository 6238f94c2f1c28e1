// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/comm/communicators.hpp"

#include <fmt/format.h>

#include <numeric>

namespace mpi_shim::comm {
namespace {

constexpr std::uint32_t kWorldId = 0;
constexpr std::uint32_t kSelfId = 1;

}  // namespace

Communicators::Communicators(Job& job) : job_(job) {
  const auto make = [&](MPI_Comm handle, std::uint32_t id, std::vector<int> members, const char* name) {
    ids_.reserve(id);
    Sides sides{std::make_shared<const Group>(std::move(members), job_.rank()), nullptr};
    auto made = std::make_unique<Communicator>(handle, id, std::move(sides), job_.first_vci());
    made->errhandler.set(ErrhandlerRef::share(initial_errhandler()));
    made->name = name;
    return made;
  };
  std::vector<int> all(static_cast<std::size_t>(job_.size()));
  std::iota(all.begin(), all.end(), 0);
  world_ = make(MPI_COMM_WORLD, kWorldId, std::move(all), "MPI_COMM_WORLD");
  self_ = make(MPI_COMM_SELF, kSelfId, {job_.rank()}, "MPI_COMM_SELF");
}

Communicators::~Communicators() {
  freed_.clear();
  others_.clear();
}

ErrhandlerRef Communicators::errhandler_of(MPI_Comm handle) const {
  if (const auto* const found = handle::find<Communicator>(handle)) return found->errhandler.get();
  const am::Lock::Guard guard{job_.lock()};
  for (const auto& comm : freed_) {
    if (comm->mpi_handle() == handle) return comm->errhandler.get();
  }
  return {};
}

void Communicators::flush_buffers() noexcept {
  for (Communicator* comm : {self_.get(), world_.get()}) comm->buffer.flush();
  for (const auto& comm : others_) comm->buffer.flush();
  for (const auto& comm : freed_) comm->buffer.flush();
}

std::string Communicators::describe(const p2p::Channel& channel) const {
  const am::Lock::Guard guard{job_.lock()};
  const auto name = [&](const Communicator& comm) {
    const std::string own = comm.name.empty() ? fmt::format("a communicator of {}", comm.size()) : comm.name;
    return channel.context == 2 * comm.id() ? own : "a collective function of " + own;
  };
  for (const Communicator* comm : {world_.get(), self_.get()}) {
    if (comm->id() == channel.context / 2) return name(*comm);
  }
  for (const auto* list : {&others_, &freed_}) {
    for (const auto& comm : *list) {
      if (comm->id() == channel.context / 2) return name(*comm);
    }
  }
  return "a communicator";
}

Communicator& Communicators::create(handle::Slot<Communicator> slot, const Number& number, Sides sides) {
  handle::Ref<Communicator> made =
      create_in(std::move(slot), MPI_COMM_NULL, number.id, std::move(sides), *job_.all_vcis()[number.vci]);
  const am::Lock::Guard guard{job_.lock()};
  others_.push_back(made);
  return *made.detach();  // the program's reference
}

void Communicators::free(Communicator& communicator) noexcept {
  {
    const am::Lock::Guard guard{job_.lock()};
    for (std::size_t i = 0; i < others_.size(); ++i) {
      if (others_[i].get() != &communicator) continue;
      communicator.retire();
      freed_.push_back(std::move(others_[i]));
      others_.erase(others_.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
  }
  sweep();
}

void Communicators::sweep() noexcept {
  const std::lock_guard one_at_a_time{sweeping_};
  std::vector<handle::Ref<Communicator>> candidates;
  {
    const am::Lock::Guard guard{job_.lock()};
    candidates = freed_;
  }
  for (handle::Ref<Communicator>& one : candidates) {
    if (one->busy()) continue;
    const std::uint32_t id = one->id();
    {
      const am::Lock::Guard guard{job_.lock()};
      std::erase_if(freed_, [&](const auto& freed) { return freed.get() == one.get(); });
    }
    one = {};  // closes its channels, under their VCI's lock
    const am::Lock::Guard guard{job_.lock()};
    ids_.release(id);  // after the channels are closed: the next user of the number reopens them
  }
}

}  // namespace mpi_shim::comm
