// SPDX-License-Identifier: Apache-2.0
// mpi_shim/coll/on_host.hpp — access of the CPU to a buffer: the buffer itself, or, for GPU memory, a copy in host
// memory for the lifetime of this object.  Borrows the buffer's memory.  Host memory costs a branch and no allocation.
#pragma once
#include <cstddef>
#include <memory>

#include "mpi_shim/p2p/data/buffer.hpp"

namespace mpi_shim::coll {

class OnHost {
 public:
  enum class Use {
    read,
    write,   ///< writes all elements; the old content is not copied to the host
    update,  ///< reads and writes
  };

  OnHost(const p2p::Buffer& buffer, Use use) : original_(buffer), here_(buffer), use_(use) {
    if (!buffer.on_gpu()) [[likely]]
      return;
    const p2p::Buffer::Span span = buffer.padded_span();
    copy_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(span.size));
    here_ = buffer.at(copy_.get() - span.offset);
    if (use != Use::write) p2p::copy(original_, here_);
  }

  /// Copies a written copy back to GPU memory.
  ~OnHost() {
    if (copy_ != nullptr && use_ != Use::read) p2p::copy(here_, original_);
  }

  [[nodiscard]] const p2p::Buffer& buffer() const noexcept { return here_; }

 private:
  const p2p::Buffer original_;
  p2p::Buffer here_;
  const Use use_;
  std::unique_ptr<std::byte[]> copy_;
};

}  // namespace mpi_shim::coll
