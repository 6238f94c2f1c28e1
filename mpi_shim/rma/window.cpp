// SPDX-License-Identifier: Apache-2.0
// A window's life after its creation, and the memory of dynamic windows.
#include "mpi_shim/rma/window.hpp"

#include <algorithm>

#include "mpi_shim/core/process.hpp"
#include "mpi_shim/rma/windows.hpp"
#include "opal/core/log.hpp"

namespace mpi_shim::rma {

Window::Window(Windows& windows, comm::Communicator& comm, Flavor flavor)
    : Object(kKind),
      flavor_attribute(static_cast<int>(flavor)),
      windows_(windows),
      comm_(comm),
      flavor_(flavor),
      targets_(std::make_unique<Target[]>(static_cast<std::size_t>(comm.size()))) {
  for (int rank = 0; rank < size(); ++rank) {
    Target& target = this->target(rank);
    target.peer = &comm.peer(rank);
    target.queue.window = this;
    target.queue.target = &target;
    target.queue.resume = [](p2p::Stalled& self) noexcept {
      auto& queue = static_cast<Target::Queue&>(self);
      queue.stalled = false;
      MessageAccess::pump(*queue.window, *queue.target);
      return true;  // it has put itself at the end again if need be
    };
  }
  grant_again_.window = serve_again_.window = this;
  grant_again_.resume = [](p2p::Stalled& self) noexcept { return static_cast<Retry&>(self).window->grant_waiting(); };
  serve_again_.resume = [](p2p::Stalled& self) noexcept { return static_cast<Retry&>(self).window->serve_deferred(); };
}

Window::~Window() {
  registration_.reset();
  Process& process = *Process::current();
  if (allocated_ != nullptr) {
    if (const auto pool = process.memory(); !pool || !(*pool)->deallocate(allocated_)) {
      log::error("mpi", "the memory of a window cannot be given back");
    }
  }
  process.free_communicator(comm_);
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
  return error != MPI_SUCCESS ? error : met;
}

int Window::attach(void* base, std::uint64_t size) {
  const am::Lock::Guard guard{engine().lock()};
  const auto address = reinterpret_cast<std::uint64_t>(base);
  if (size > ~address) return MPI_ERR_RMA_ATTACH;
  attached_.push_back({address, size});
  return MPI_SUCCESS;
}

int Window::detach(const void* base) {
  const am::Lock::Guard guard{engine().lock()};
  const auto found = std::find_if(attached_.begin(), attached_.end(), [&](const Region& region) {
    return region.base == reinterpret_cast<std::uint64_t>(base);
  });
  if (found == attached_.end()) return MPI_ERR_RMA_ATTACH;
  attached_.erase(found);
  return MPI_SUCCESS;
}

}  // namespace mpi_shim::rma
