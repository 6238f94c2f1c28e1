// SPDX-License-Identifier: Apache-2.0
// mpi_shim/api/p2p/plain.hpp — the arguments of a message as nearly all are: a predefined type, a rank of a
// communicator, a tag.  Checked in a few instructions, of which none is for telling what is wrong.  Whatever is not
// plain, mistakes among them, goes the general way by Call, which says so.  Lives on the stack of the call.
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

  /// Whether the arguments are plain, and so without a mistake; what follows is only for those.
  explicit operator bool() const noexcept { return comm_ != nullptr; }
  [[nodiscard]] p2p::Engine& engine() const noexcept { return comm_->engine(); }
  [[nodiscard]] p2p::Channel& channel() const noexcept { return comm_->user(); }
  [[nodiscard]] const p2p::Buffer& buffer() const noexcept { return buffer_; }

 private:
  comm::Communicator* comm_ = nullptr;
  p2p::Buffer buffer_;
};

}  // namespace mpi_shim::api
