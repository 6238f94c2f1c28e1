// SPDX-License-Identifier: Apache-2.0
// opal/btl/ofi/messages/receive_buffers.hpp — the buffers that are posted for messages.  With FI_MULTI_RECV a few large
// ones, each of which the provider fills with many messages; else one for each message.
// Owned by the module, which must close its endpoints first.  Threads: as the module.
#pragma once
#include <cstdint>
#include <deque>
#include <vector>

#include "opal/btl/ofi/device/device.hpp"
#include "opal/core/system/mapping.hpp"

namespace opal::btl::ofi {

class ReceiveBuffers {
 public:
  /// `message`: bytes of the largest message.  `memory`: bytes of all buffers together.
  static Result<ReceiveBuffers> create(const Device& device, const FabricEndpoint& fabric, std::size_t message,
                                       std::uint64_t memory);
  ReceiveBuffers(ReceiveBuffers&&) noexcept = default;
  ReceiveBuffers& operator=(ReceiveBuffers&&) = delete;
  ~ReceiveBuffers() = default;

  /// The bytes of the message of a completion; empty: there is none in it.
  [[nodiscard]] ByteSpan message_of(const fi_cq_data_entry& entry) const noexcept;
  /// Posts the completion's buffer again if the provider has finished with it.  Requires: the message was handled.
  void recycle(const fi_cq_data_entry& entry) noexcept;
  /// Posts the buffers that are not posted: after create() all, later those that the provider had no room for.
  /// Returns how many it has posted.
  std::size_t post_missing() noexcept;
  [[nodiscard]] bool all_posted() const noexcept { return unposted_.empty(); }

 private:
  struct Buffer : Operation {
    explicit Buffer(std::byte* at) noexcept : Operation(Kind::receive), data(at) {}
    std::byte* data;
  };
  ReceiveBuffers(const FabricEndpoint& fabric, Mapping memory, MemoryRegion region, std::size_t each,
                 bool multi) noexcept;
  [[nodiscard]] bool post(Buffer& buffer) noexcept;

  fid_ep* endpoint_;
  Mapping memory_;
  MemoryRegion region_;  // ends before the memory
  std::size_t each_;     // bytes of a buffer
  bool multi_;           // FI_MULTI_RECV: one buffer takes several messages
  std::deque<Buffer> buffers_;
  std::vector<Buffer*> unposted_;
};

}  // namespace opal::btl::ofi
