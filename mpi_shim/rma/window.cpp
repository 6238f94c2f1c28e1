// SPDX-License-Identifier: Apache-2.0
// Constructor, close and destructor of a window; attached memory of dynamic windows.
#include "mpi_shim/rma/window.hpp"

#include <algorithm>

#include "mpi_shim/base/error_class.hpp"
#include "mpi_shim/comm/communicators.hpp"
#include "mpi_shim/rma/windows.hpp"
#include "opal/core/log.hpp"

namespace mpi_shim::rma {

Window::Window(Windows& windows, comm::Communicators& communicators, comm::Communicator& comm, Flavor flavor)
    : Object(kKind),
      flavor_attribute(static_cast<int>(flavor)),
      windows_(windows),
      communicators_(communicators),
      comm_(comm),
      flavor_(flavor),
      targets_(std::make_unique<Target[]>(static_cast<std::size_t>(comm.size()))) {
  for (int rank = 0; rank < size(); ++rank) target(rank).peer = &comm.peer(rank);
  grant_again_.window = serve_again_.window = this;
  grant_again_.resume = [](p2p::Stalled& self) noexcept { return static_cast<Retry&>(self).window->grant_waiting(); };
  serve_again_.resume = [](p2p::Stalled& self) noexcept { return static_cast<Retry&>(self).window->serve_deferred(); };
}

Window::~Window() {
  registration_.reset();
  attached_.clear();
  if (allocated_ != nullptr) {
    if (const auto pool = communicators_.job().memory(); !pool || !(*pool)->deallocate(allocated_)) {
      log::error("mpi", "the memory of a window cannot be given back");
    }
  }
  communicators_.free(comm_);
}

int Window::close() {
  const int error = drain_all();
  for (int rank = 0; rank < size(); ++rank) {
    Target& target = this->target(rank);
    engine().wait_until([&] {
      return target.unlocking.load(std::memory_order_acquire) == 0 || target.failed.load(std::memory_order_acquire);
    });
  }
  const int met = barrier();
  windows_.remove(*this);
  return first_error(error, met);
}

int Window::attach(void* base, std::uint64_t size) {
  Attached attached;
  attached.region.base = reinterpret_cast<std::uint64_t>(base);
  attached.region.size = size;
  if (size > ~attached.region.base) return MPI_ERR_RMA_ATTACH;
  if (attached_table_ != nullptr && size != 0) {
    const am::Lock::Guard guard{engine().lock()};
    auto registration = engine().context().register_memory(base, size, Rights::all);
    if (registration && registration->key().size() <= attached.region.key.size()) {
      attached.registration = std::move(*registration);
      const ByteSpan key = attached.registration.key();
      attached.region.key_size = key.size();
      std::copy(key.begin(), key.end(), attached.region.key.begin());
    }  // else the region is not in the table, and others send access messages
  }
  if (const int error = lock_updates(*own().control); error != MPI_SUCCESS) return error;
  const std::lock_guard updates{own().control->update, std::adopt_lock};
  const am::Lock::Guard guard{engine().lock()};
  attached_.push_back(std::move(attached));
  publish_attached();
  return MPI_SUCCESS;
}

int Window::detach(const void* base) {
  if (const int error = lock_updates(*own().control); error != MPI_SUCCESS) return error;
  const std::lock_guard updates{own().control->update, std::adopt_lock};
  const am::Lock::Guard guard{engine().lock()};
  const auto found = std::find_if(attached_.begin(), attached_.end(), [&](const Attached& attached) {
    return attached.region.base == reinterpret_cast<std::uint64_t>(base);
  });
  if (found == attached_.end()) return MPI_ERR_RMA_ATTACH;
  attached_.erase(found);
  publish_attached();
  return MPI_SUCCESS;
}

/// Requires: the update lock is held.
void Window::publish_attached() {
  if (attached_table_ == nullptr) return;
  AttachedTable& table = *attached_table_;
  table.count = 0;
  for (const Attached& attached : attached_) {
    if (attached.region.key_size == 0 || table.count == AttachedTable::kMost) continue;
    table.regions[table.count++] = attached.region;
  }
  table.version.fetch_add(1, std::memory_order_release);
}

}  // namespace mpi_shim::rma
