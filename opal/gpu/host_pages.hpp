// SPDX-License-Identifier: Apache-2.0
// opal/gpu/host_pages.hpp — pages that the driver was asked about and that are the host's.
// Such a page stays the host's until it is unmapped or something is mapped over it, of which the memory monitor tells;
// without a monitor nothing is kept.  Threads: everything from any thread; released() may run inside munmap().
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

  /// Listens to the memory monitor, if there is one; before that add() does nothing.
  void start() noexcept;

  /// To be taken before the driver is asked and passed to add(): what is released meanwhile does not get in.
  [[nodiscard]] std::uint64_t releases() const noexcept { return releases_.load(std::memory_order_seq_cst); }
  /// Only pages that the processor can read get in.
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
