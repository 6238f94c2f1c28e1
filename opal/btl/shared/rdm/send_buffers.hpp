// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/rdm/send_buffers.hpp — the buffers of messages in flight.  They are made on demand in slabs and freed
// with the pool.  Owned by the transport; the network, which may still read buffers in flight, must end first.
// Threads: as the transport.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "opal/core/bytes.hpp"
#include "opal/core/log.hpp"
#include "opal/core/system/mapping.hpp"

namespace opal::btl::rdm {

struct SendBuffer {
  std::byte* data = nullptr;
  std::uint32_t slot = 0;  ///< while in flight: slot of the endpoint
  std::uint32_t key = 0;   ///< while in flight: key of the endpoint
};

class SendBuffers {
 public:
  /// Makes `count` buffers for the memory of a slab and appends them to `buffers`; the pool sets their `data`.
  using Make =
      std::function<Result<void>(const Mapping& memory, std::uint32_t count, std::vector<SendBuffer*>& buffers)>;

  /// `size`: bytes of each buffer.  `most`: number of buffers.  The buffers that `make` makes outlive the pool.
  SendBuffers(std::size_t size, std::uint32_t most, Make make)
      : size_(align_up(size, kCacheLine)), most_(most), make_(std::move(make)) {}

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

 private:
  void grow() noexcept {
    constexpr std::uint32_t kFirst = 32;  // buffers
    if (made_ >= most_) return;
    const std::uint32_t more = std::min(std::max(made_, kFirst), most_ - made_);
    auto memory = Mapping::anonymous(more * size_, false);
    if (!memory) return;
    free_.reserve(made_ + more);
    if (const auto made = make_(*memory, more, free_); !made) {
      log::info("btl", "no more than {} buffers for sending: {}", made_, to_string(made.error()));
      most_ = made_;
      return;
    }
    std::byte* at = memory->data();
    for (SendBuffer* const buffer : free_) {
      buffer->data = at;
      at += size_;
    }
    made_ += more;
    slabs_.push_back(std::move(*memory));
  }

  std::size_t size_;
  std::uint32_t most_;
  Make make_;
  std::uint32_t made_ = 0;
  std::vector<Mapping> slabs_;
  std::vector<SendBuffer*> free_;
};

}  // namespace opal::btl::rdm
