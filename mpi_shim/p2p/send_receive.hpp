// SPDX-License-Identifier: Apache-2.0
// mpi_shim/p2p/send_receive.hpp — a send and a receive behind one request (MPI_Isendrecv); its status is the receive's.
// Ends itself when the program lets it go.  Threads: under the Context's lock, taken here.
#pragma once
#include <cstdint>
#include <memory>

#include "mpi_shim/p2p/engine.hpp"
#include "mpi_shim/request/request.hpp"

namespace mpi_shim::p2p {

class SendReceive final : public Request {
 public:
  /// Null parts: to or from MPI_PROC_NULL.  `packed`: bytes that the send reads, kept until it is done.
  SendReceive(Engine& engine, Request* send, Request* receive, std::unique_ptr<std::byte[]> packed) noexcept
      : Request(kActions, &engine), engine_(engine), send_(send), receive_(receive), packed_(std::move(packed)) {}

 private:
  static const Actions kActions;
  void begin_both() noexcept;
  void run(Request& part) noexcept;
  void part_done(Request& part) noexcept;

  Engine& engine_;
  Request* send_;
  Request* receive_;
  std::unique_ptr<std::byte[]> packed_;
  int pending_ = 0;
};

}  // namespace mpi_shim::p2p
