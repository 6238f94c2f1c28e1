// SPDX-License-Identifier: Apache-2.0
// opal/btl/memory_handle.hpp — what a peer needs to address a registration: opaque bytes, at most 254 of them.
// The same handle serves local and remote use.  It is a plain value that owns nothing: a program copies bytes() to the
// peers that may use the memory.  It is stale after deregister_memory().
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "opal/core/bytes.hpp"
#include "opal/core/result.hpp"

namespace opal {

/// What a peer may do with a registration.  Values combine with |.
enum class Rights : std::uint32_t {
  none = 0,
  remote_read = 1,
  remote_write = 2,
  remote_atomic = 4,
  all = 7,
};
constexpr Rights operator|(Rights a, Rights b) noexcept {
  return static_cast<Rights>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
/// True when `granted` contains every right in `wanted`.
constexpr bool includes(Rights granted, Rights wanted) noexcept {
  return (static_cast<std::uint32_t>(wanted) & ~static_cast<std::uint32_t>(granted)) == 0;
}

class MemoryHandle {
 public:
  static constexpr std::size_t kMaxSize = 254;

  MemoryHandle() noexcept = default;

  /// Makes a handle of received bytes.  It checks only their number.  Errors: protocol (longer than kMaxSize).
  static Result<MemoryHandle> from_bytes(ByteSpan bytes) noexcept {
    if (bytes.size() > kMaxSize) return Error{Errc::protocol, 0, "MemoryHandle::from_bytes: too long", bytes.size()};
    MemoryHandle handle;
    handle.size_ = static_cast<std::uint16_t>(bytes.size());
    if (!bytes.empty()) std::memcpy(handle.bytes_.data(), bytes.data(), bytes.size());
    return handle;
  }

  [[nodiscard]] ByteSpan bytes() const noexcept { return {bytes_.data(), size_}; }

 private:
  std::uint16_t size_ = 0;
  std::array<std::byte, kMaxSize> bytes_{};
};
static_assert(sizeof(MemoryHandle) == 256, "architecture.md: at most 256 bytes");

}  // namespace opal
