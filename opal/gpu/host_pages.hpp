// SPDX-License-Identifier: Apache-2.0
// opal/gpu/host_pages.hpp — a cache of pages that the driver has classified as host memory.
// A page stays host memory until it is unmapped or something is mapped over it, which the memory monitor reports;
// without a monitor the cache stays empty.  Threads: any; released() may run inside munmap().
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "opal/core/bytes.hpp"
#include "opal/core/export.hpp"
#include "opal/memory/events/events.hpp"

namespace opal::gpu {

class OPAL_EXPORT HostPages final : public memory::Listener {
 public:
  [[nodiscard]] bool contains(const void* address) const noexcept {
    const std::uintptr_t page = page_of(address);
    return slots_[slot_of(page)].load(std::memory_order_relaxed) == page;
  }

  /// Listens to the memory monitor, if there is one; otherwise, and before start(), add() does nothing.
  void start() noexcept;

  /// The number of released() calls.  Read it before the query of the driver and pass it to add(), which then adds
  /// nothing if memory was released in between.
  [[nodiscard]] std::uint64_t releases() const noexcept { return releases_.load(std::memory_order_seq_cst); }
  /// Adds the page of `address` if the processor can read it.
  void add(const void* address, std::uint64_t releases_before) noexcept;

  void released(memory::Range range) noexcept override;

 private:
  static constexpr std::size_t kSlots = 1024;
  static constexpr unsigned kPageBits = 12;  // no page of any machine is smaller; larger ones take several slots

  static std::uintptr_t page_of(const void* address) noexcept {
    return reinterpret_cast<std::uintptr_t>(address) >> kPageBits;
  }
  static std::size_t slot_of(std::uintptr_t page) noexcept { return (page ^ (page >> 10)) % kSlots; }

  alignas(kCacheLine) std::array<std::atomic<std::uintptr_t>, kSlots> slots_{};  // page numbers; 0: none
  std::atomic<std::uint64_t> releases_{0};
  std::atomic<bool> listening_{false};
};

OPAL_EXPORT extern HostPages host_pages;

}  // namespace opal::gpu
