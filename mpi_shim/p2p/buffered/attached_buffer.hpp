// SPDX-License-Identifier: Apache-2.0
// mpi_shim/p2p/buffered/attached_buffer.hpp — the memory that buffered sends copy their messages into
// (MPI_Buffer_attach): the program's, used first fit, or as much as it takes (MPI_BUFFER_AUTOMATIC).  A message leaves
// it when its send is done. Owned by the process or a communicator.  Records of messages are kept outside of the
// program's memory, so that a message takes no more of it than its packed bytes.  Its messages may go on any VCI.
// Threads: under Vcis::lock(), taken here.
#pragma once
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "mpi_shim/p2p/waits/vcis.hpp"
#include "mpi_shim/request/request.hpp"

namespace mpi_shim::p2p {

class AttachedBuffer {
 public:
  explicit AttachedBuffer(Vcis& vcis) noexcept : vcis_(vcis) {}
  AttachedBuffer(const AttachedBuffer&) = delete;
  AttachedBuffer& operator=(const AttachedBuffer&) = delete;

  [[nodiscard]] bool attached() const noexcept { return attached_; }
  /// `memory` is `size` bytes, or MPI_BUFFER_AUTOMATIC.  False: there is one already.
  bool attach(void* memory, std::uint64_t size);
  /// What was attached; waits until it is empty.
  struct Memory {
    void* base;
    std::uint64_t size;
  };
  Memory detach();

  /// Copies a message and sends it by the channel's Engine.  MPI_ERR_BUFFER: no room.
  int send(Engine& engine, Channel& channel, const Buffer& message, int destination, int tag);

  /// Waits until all messages sent so far have left.
  void flush() noexcept;
  /// A started request for the same.  Errors: no_memory.
  Result<Request*> start_flush();

 private:
  class Flush;
  struct Piece {
    AttachedBuffer* owner;
    std::uint64_t number;  // in order of sending
    std::uint64_t offset;  // in the program's memory
    std::uint64_t size;
    std::unique_ptr<std::byte[]> own;  // automatic: the memory itself
  };

  /// Room for `size` bytes; the piece stands in pieces_ where its offset belongs.  Null: there is none.
  Piece* reserve(std::uint64_t size);
  void left(Piece& piece) noexcept;

  Vcis& vcis_;
  bool attached_ = false;
  bool automatic_ = false;
  std::byte* base_ = nullptr;
  std::uint64_t size_ = 0;
  std::uint64_t sent_ = 0;   // messages ever
  std::list<Piece> pieces_;  // by offset
  std::vector<Flush*> flushes_;
};

}  // namespace mpi_shim::p2p
