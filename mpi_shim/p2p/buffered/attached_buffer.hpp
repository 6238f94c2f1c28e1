// SPDX-License-Identifier: Apache-2.0
// mpi_shim/p2p/buffered/attached_buffer.hpp — the memory into which buffered sends copy their messages
// (MPI_Buffer_attach): the program's memory, allocated first fit, or the heap (MPI_BUFFER_AUTOMATIC).  The copy is
// released when its send is done.  Records are outside of the program's memory: a message takes only its packed bytes.
// Owned by the Process or a Communicator.  Borrows the program's memory from attach() to detach().  One buffer serves
// all VCIs.  Threads: any; takes Vcis::lock().
#pragma once
#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "mpi_shim/p2p/waits/vcis.hpp"
#include "mpi_shim/request/request.hpp"

namespace mpi_shim::p2p {

class AttachedBuffer {
 public:
  explicit AttachedBuffer(Vcis& vcis) noexcept : vcis_(vcis) {}

  [[nodiscard]] bool attached() const noexcept { return attached_.load(std::memory_order_relaxed); }
  /// `memory` has `size` bytes, or is MPI_BUFFER_AUTOMATIC.  False: a buffer is already attached.
  bool attach(void* memory, std::uint64_t size);
  /// Waits until all messages are sent, also those that other threads send meanwhile; then the memory is the program's
  /// again.  Returns what was attached; nullopt: nothing is attached.
  struct Memory {
    void* base;
    std::uint64_t size;
  };
  std::optional<Memory> detach();

  /// Copies a message and starts its send by `engine`, which has `channel` open.  Returns an error class;
  /// MPI_ERR_BUFFER: nothing is attached, or no room is free even after one round of progress.
  int send(Engine& engine, Channel& channel, const Buffer& message, int destination, int tag);

  /// Waits until the sends of all messages so far are done.
  void flush() noexcept;
  /// A started request, done when the sends of all messages so far are done.  Errors: no_memory.
  Result<Request*> start_flush();

 private:
  class Flush;
  /// The copy of one message.
  struct Piece {
    AttachedBuffer* owner;
    std::uint64_t number;  // counts the messages from 1 on
    std::uint64_t offset;  // in the program's memory; 0 with MPI_BUFFER_AUTOMATIC
    std::uint64_t size;
    std::unique_ptr<std::byte[]> own;  // the memory of the copy with MPI_BUFFER_AUTOMATIC; else null
  };

  /// Reserves `size` bytes and inserts the piece into pieces_ in the order of offsets.  Null: no room is free.
  Piece* reserve(std::uint64_t size);
  /// The send of the piece is done: releases the piece and ends the flushes that waited for it.
  void left(Piece& piece) noexcept;

  Vcis& vcis_;
  std::atomic<bool> attached_{false};  // changes under the lock
  bool automatic_ = false;
  std::byte* base_ = nullptr;
  std::uint64_t size_ = 0;
  std::uint64_t sent_ = 0;   // number of the latest message
  std::list<Piece> pieces_;  // by offset
  std::vector<Flush*> flushes_;
};

}  // namespace mpi_shim::p2p
