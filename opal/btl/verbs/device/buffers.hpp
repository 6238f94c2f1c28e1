// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/device/buffers.hpp — a pool of message buffers, registered with the device in slabs.
// The module calls grow() when peers need more buffers.  The memory is freed with the pool; free buffers are reused.
// Owned by the module.  Threads: as the module; total() from any.
#pragma once
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <vector>

#include "opal/btl/verbs/device/device.hpp"
#include "opal/core/system/mapping.hpp"

namespace opal::btl::verbs {

struct Buffer {
  std::byte* data;
  std::uint32_t key;    ///< lkey of its memory region
  std::uint32_t index;  ///< for BufferPool::at()
};

class BufferPool {
 public:
  /// `size`: bytes of each buffer.
  explicit BufferPool(std::size_t size) noexcept : size_(size) {}
  ~BufferPool() { total_ -= buffers_.size() * stride(); }
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// Adds `count` buffers.  Errors: no_memory, limit_reached (no more memory can be pinned), os.
  Result<void> grow(const Device& device, std::uint32_t count) {
    OPAL_TRY_ASSIGN(Mapping memory, Mapping::anonymous(count * stride(), false));
    const int access = IBV_ACCESS_LOCAL_WRITE;  // ibv_reg_mr is a macro that would combine two enumerations
    MemoryRegion region{ibv_reg_mr(device.domain(), memory.data(), memory.size(), access)};
    if (region == nullptr) return device_error(errno, "ibv_reg_mr(message buffers; see ulimit -l)", memory.size());
    free_.reserve(buffers_.size() + count);
    for (std::uint32_t i = 0; i < count; ++i) {
      buffers_.push_back({memory.data() + i * stride(), region->lkey, static_cast<std::uint32_t>(buffers_.size())});
    }
    for (std::uint32_t i = 0; i < count; ++i) free_.push_back(&buffers_[buffers_.size() - 1 - i]);
    slabs_.push_back({std::move(memory), std::move(region)});
    total_ += count * stride();
    return {};
  }

  /// Bytes that all pools of this process have registered; Config::message_memory limits the sum.
  [[nodiscard]] static std::uint64_t total() noexcept { return total_.load(std::memory_order_relaxed); }

  [[nodiscard]] std::uint32_t count() const noexcept { return static_cast<std::uint32_t>(buffers_.size()); }
  [[nodiscard]] std::size_t buffer_size() const noexcept { return size_; }  ///< bytes
  [[nodiscard]] std::size_t stride() const noexcept { return align_up(size_, kCacheLine); }
  [[nodiscard]] Buffer& at(std::uint32_t index) noexcept { return buffers_[index]; }

  /// A free buffer, or null.  Last in, first out, so that few buffers in use touch few cache lines.
  Buffer* take() noexcept {
    if (free_.empty()) return nullptr;
    Buffer* buffer = free_.back();
    free_.pop_back();
    return buffer;
  }
  void give_back(Buffer& buffer) noexcept { free_.push_back(&buffer); }  // grow() has reserved the capacity

 private:
  struct Slab {
    Mapping memory;
    MemoryRegion region;  // destroyed before the memory
  };
  static inline std::atomic<std::uint64_t> total_{0};
  std::size_t size_;
  std::vector<Slab> slabs_;
  std::deque<Buffer> buffers_;  // stable addresses
  std::vector<Buffer*> free_;
};

}  // namespace opal::btl::verbs
