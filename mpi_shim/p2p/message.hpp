// SPDX-License-Identifier: Apache-2.0
// mpi_shim/p2p/message.hpp — a message that MPI_Mprobe has taken out of matching: the object behind an MPI_Message.
// Owned by the program until MPI_Mrecv.  Threads: as the standard says, one at a time.
#pragma once
#include <memory>

#include "mpi_shim/handle/object.hpp"
#include "mpi_shim/include/mpi.h"
#include "mpi_shim/p2p/engine.hpp"

namespace mpi_shim::p2p {

class MessageObject final : public handle::Object {
 public:
  static constexpr handle::Kind kKind = handle::Kind::message;
  MessageObject(std::unique_ptr<Unexpected> taken, Engine& of, Channel& from, MPI_Comm comm) noexcept
      : Object(kKind), message(std::move(taken)), engine(of), channel(from), comm_handle(comm) {
    const am::Lock::Guard guard{engine.lock()};
    ++channel.users;  // the program may free the communicator before it receives
  }
  ~MessageObject() {
    const am::Lock::Guard guard{engine.lock()};
    --channel.users;
  }

  std::unique_ptr<Unexpected> message;
  Engine& engine;
  Channel& channel;
  const MPI_Comm comm_handle;
};

}  // namespace mpi_shim::p2p
