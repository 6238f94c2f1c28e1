// SPDX-License-Identifier: Apache-2.0
// tests/rcache/fake_gpu_peer.hpp — a peer that allocates and frees GPU memory, and a driver that opens it here: room
// for so many mappings, and modes in which it refuses.  It checks that nothing is closed twice or left open.
#pragma once
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>

#include "opal/rcache/rgpusm.hpp"

namespace opal::rcache::test {

/// Handles as the peer's driver makes them: every allocation has a new buffer id, whatever its address.
inline gpu::MemoryHandle allocated_at(std::uint64_t base, std::uint64_t size) {
  static std::uint64_t last_id = 0;
  gpu::MemoryHandle handle{.base = base, .size = size, .buffer_id = ++last_id, .kind = 0, .device = {}};
  handle.driver[0] = static_cast<std::byte>(last_id);
  return handle;
}

class FakeOpener final : public GpuOpener {
 public:
  ~FakeOpener() override { EXPECT_TRUE(open_now.empty()) << open_now.size() << " mappings were left open"; }

  Result<std::uintptr_t> open(const gpu::MemoryHandle& handle, gpu::ContextHandle) noexcept override {
    ++opens;
    if (fail_with) return Error{*fail_with, 0, "FakeOpener"};
    if (open_now.size() >= room) return Error{Errc::no_memory, 0, "FakeOpener(no room)"};
    if (refuses_overlaps) {
      for (const auto& [address, other] : open_now) {
        if (other.base / chunk * chunk < end_of(handle) && handle.base / chunk * chunk < end_of(other)) {
          return Error{Errc::busy, 0, "FakeOpener(already mapped)"};
        }
      }
    }
    const std::uintptr_t address = next_ += 1 << 20;
    open_now.emplace(address, handle);
    return address;
  }
  void close(const gpu::MemoryHandle&, std::uintptr_t address, gpu::ContextHandle) noexcept override {
    ++closes;
    EXPECT_EQ(open_now.erase(address), 1u) << "closed something that was not open";
  }

  [[nodiscard]] bool has(const gpu::MemoryHandle& handle) const {
    for (const auto& [address, other] : open_now) {
      if (other == handle) return true;
    }
    return false;
  }

  std::size_t room = std::numeric_limits<std::size_t>::max();
  bool refuses_overlaps = false;    ///< "already mapped", as drivers used to say
  std::uint64_t chunk = 1;          ///< what it maps is rounded to this: drivers share a block among small allocations
  std::optional<Errc> fail_with{};  ///< whatever is asked for
  std::map<std::uintptr_t, gpu::MemoryHandle> open_now{};
  std::uint64_t opens = 0;
  std::uint64_t closes = 0;

 private:
  [[nodiscard]] std::uint64_t end_of(const gpu::MemoryHandle& handle) const {
    return (handle.base + handle.size + chunk - 1) / chunk * chunk;
  }
  std::uintptr_t next_ = 0x100000;
};

}  // namespace opal::rcache::test
