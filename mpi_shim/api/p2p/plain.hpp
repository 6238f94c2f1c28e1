// SPDX-License-Identifier: Apache-2.0
// mpi_shim/api/p2p/plain.hpp — the fast check for the arguments of a plain message: a buffer, fewer than 2^31 elements
// of a predefined contiguous datatype, a rank of the communicator (no wildcard, not MPI_PROC_NULL) and a tag >= 0.
// It raises no errors.  For other arguments, wrong ones included, the caller uses Call, which reports what is wrong.
// Owned by the stack frame of the MPI function; borrows the communicator and the datatype.
#pragma once
#include <cstdint>

#include "mpi_shim/api/call.hpp"
#include "mpi_shim/handle/table.hpp"
#include "mpi_shim/p2p/data/buffer.hpp"

namespace mpi_shim::api {

class PlainMessage {
 public:
  PlainMessage(const void* base, MPI_Count count, MPI_Datatype datatype, int rank, int tag, MPI_Comm comm) noexcept {
    if (Process::current() == nullptr || Call::is_no_memory(base) || static_cast<std::uint64_t>(count) >= 1U << 31 ||
        tag < 0) [[unlikely]]
      return;
    const auto* const type = handle::find<datatype::Datatype>(datatype);
    if (type == nullptr || !type->is_predefined() || !type->is_contiguous()) [[unlikely]]
      return;
    auto* const found = handle::find<comm::Communicator>(comm);
    if (found == nullptr || static_cast<unsigned>(rank) >= static_cast<unsigned>(found->remote_size())) [[unlikely]]
      return;
    comm_ = found;
    buffer_ = {base, static_cast<std::uint64_t>(count), *type};
  }

  /// Whether the arguments are plain, and therefore valid.  The other functions require this.
  explicit operator bool() const noexcept { return comm_ != nullptr; }
  [[nodiscard]] p2p::Engine& engine() const noexcept { return comm_->engine(); }
  [[nodiscard]] p2p::Channel& channel() const noexcept { return comm_->user(); }
  [[nodiscard]] const p2p::Buffer& buffer() const noexcept { return buffer_; }

 private:
  comm::Communicator* comm_ = nullptr;
  p2p::Buffer buffer_;
};

}  // namespace mpi_shim::api
