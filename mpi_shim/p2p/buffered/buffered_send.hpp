// SPDX-License-Identifier: Apache-2.0
// mpi_shim/p2p/buffered/buffered_send.hpp — a persistent buffered send (MPI_Bsend_init): done as soon as its message is
// copied. Ends itself when the program lets it go.  Threads: as AttachedBuffer.
#pragma once
#include "mpi_shim/p2p/buffered/attached_buffer.hpp"
#include "mpi_shim/p2p/data/buffer.hpp"
#include "mpi_shim/request/request.hpp"

namespace mpi_shim::p2p {

class BufferedSend final : public Request {
 public:
  /// Sends through `own` if something is attached there at the start, else through `shared`.
  BufferedSend(AttachedBuffer& own, AttachedBuffer& shared, Engine& engine, Channel& channel, const Buffer& message,
               int destination, int tag)
      : Request(kActions, &engine),
        own_(own),
        shared_(shared),
        channel_(channel),
        message_(message),
        destination_(destination),
        tag_(tag) {
    if (message.has_derived_type()) type_ = message.share_type();
    const am::Lock::Guard guard{engine.lock()};
    ++channel_.users;
  }

 private:
  static const Actions kActions;
  void send() noexcept;
  void put_away() noexcept;

  AttachedBuffer& own_;
  AttachedBuffer& shared_;
  Channel& channel_;
  const Buffer message_;
  datatype::DatatypeRef type_;
  const int destination_;
  const int tag_;
};

}  // namespace mpi_shim::p2p
