// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/p2p/buffered/buffered_send.hpp"

namespace mpi_shim::p2p {

const Request::Actions BufferedSend::kActions{act<&BufferedSend::send>, act<&BufferedSend::put_away>};

void BufferedSend::put_away() noexcept {
  {
    const am::Lock::Guard guard{engine()->lock()};
    --channel_.users;
  }
  retire();
}

void BufferedSend::send() noexcept {
  begin();
  outcome_.error = (own_.attached() ? own_ : shared_).send(*engine(), channel_, message_, destination_, tag_);
  finish();
}

}  // namespace mpi_shim::p2p
