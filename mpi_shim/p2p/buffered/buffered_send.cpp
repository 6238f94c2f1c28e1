// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/p2p/buffered/buffered_send.hpp"

namespace mpi_shim::p2p {

const Request::Actions BufferedSend::kActions{
    [](Request& self) noexcept { static_cast<BufferedSend&>(self).send(); },
    [](Request& self) noexcept {
      auto& send = static_cast<BufferedSend&>(self);
      {
        const am::Lock::Guard guard{send.engine()->lock()};
        --send.channel_.users;
      }
      self.retire();
    },
    nullptr,
};

void BufferedSend::send() noexcept {
  begin();
  outcome_.error = (own_.attached() ? own_ : shared_).send(*engine(), channel_, message_, destination_, tag_);
  finish();
}

}  // namespace mpi_shim::p2p
