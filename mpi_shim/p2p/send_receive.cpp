// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/p2p/send_receive.hpp"

namespace mpi_shim::p2p {

const Request::Actions SendReceive::kActions{act<&SendReceive::begin_both>, act<&Object::retire>};

void SendReceive::begin_both() noexcept {
  const am::Lock::Guard guard{engine_.lock()};
  begin();
  if (receive_ == nullptr) outcome_.source = MPI_PROC_NULL;
  pending_ = 1;  // so that parts done at once do not end it
  if (receive_ != nullptr) run(*receive_);
  if (send_ != nullptr) run(*send_);
  if (--pending_ == 0) finish();
}

void SendReceive::run(Request& part) noexcept {
  ++pending_;
  part.set_watcher(
      {[](void* self, Request& done) noexcept { static_cast<SendReceive*>(self)->part_done(done); }, this});
  part.start();
}

void SendReceive::part_done(Request& part) noexcept {
  const int earlier = outcome_.error;
  if (&part == receive_) {
    outcome_ = part.outcome();
  } else {
    outcome_.error = part.outcome().error;
  }
  if (outcome_.error == MPI_SUCCESS) outcome_.error = earlier;
  part.put_back();
  if (--pending_ == 0) finish();
}

}  // namespace mpi_shim::p2p
