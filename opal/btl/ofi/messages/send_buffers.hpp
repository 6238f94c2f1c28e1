// SPDX-License-Identifier: Apache-2.0
// opal/btl/ofi/messages/send_buffers.hpp — the buffers of messages in flight.  They are made on demand in slabs, which
// are registered if the provider requires that (FI_MR_LOCAL), and freed with the pool.
// Owned by the module, which must close its endpoints first: the provider may still read buffers in flight.
// Threads: as the module.
#pragma once
#include <cstdint>
#include <deque>
#include <vector>

#include "opal/btl/ofi/device/device.hpp"
#include "opal/core/system/mapping.hpp"

namespace opal::btl::ofi {

struct SendBuffer : Operation {
  SendBuffer(std::byte* at, void* memory) noexcept : Operation(Kind::send), data(at), descriptor(memory) {}
  std::byte* data;
  void* descriptor;        ///< of its registration; null: none is needed
  std::uint32_t slot = 0;  ///< while in flight: slot of the endpoint
  std::uint32_t key = 0;   ///< while in flight: key of the endpoint
};

/// Registers memory that the provider itself reads and writes; null: the provider does not require it.
Result<MemoryRegion> register_buffers(const Device& device, const Mapping& memory) noexcept;

class SendBuffers {
 public:
  /// `size`: bytes of each buffer.  `most`: number of buffers.
  SendBuffers(const Device& device, std::size_t size, std::uint32_t most) noexcept
      : device_(device), size_(align_up(size, kCacheLine)), most_(most) {}

  /// Returns a free buffer; null: none is free, and no more can be made.
  SendBuffer* take() noexcept {
    if (free_.empty()) [[unlikely]]
      grow();
    if (free_.empty()) return nullptr;
    SendBuffer* const buffer = free_.back();
    free_.pop_back();
    return buffer;
  }
  void give_back(SendBuffer& buffer) noexcept { free_.push_back(&buffer); }
  /// The peer of `count` buffers in flight has died: other buffers replace them until they come back, if ever.
  void replace(std::uint32_t count) noexcept { most_ += count; }
  void came_back() noexcept { --most_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }  ///< of each buffer, bytes

  /// Forgets the registrations without ending them; in a forked child.
  void abandon() noexcept {
    for (Slab& slab : slabs_) (void)slab.region.release();
  }

 private:
  struct Slab {
    Mapping memory;
    MemoryRegion region;  // ends before the memory
  };
  void grow() noexcept;
  const Device& device_;
  std::size_t size_;
  std::uint32_t most_;
  std::vector<Slab> slabs_;
  std::deque<SendBuffer> buffers_;  // stable addresses
  std::vector<SendBuffer*> free_;
};

}  // namespace opal::btl::ofi
