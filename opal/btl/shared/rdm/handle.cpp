// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/shared/rdm/handle.hpp"

namespace opal::btl::rdm {

std::uint32_t checksum_of(const wire::Handle& handle) noexcept {
  wire::Handle plain = handle;
  plain.checksum = 0;
  std::uint32_t hash = 0x811c9dc5;  // FNV-1a
  for (const std::byte byte : bytes_of(plain)) hash = (hash ^ static_cast<std::uint8_t>(byte)) * 0x01000193;
  return hash;
}

Result<wire::Handle> decode_handle(const MemoryHandle& handle) noexcept {
  wire::Handle decoded{};
  if (handle.bytes().size() != sizeof decoded || !read_object(handle.bytes(), decoded)) {
    return Error{Errc::protocol, 0, "memory handle: not one of this transport", handle.bytes().size()};
  }
  if (decoded.checksum != checksum_of(decoded)) {
    return Error{Errc::protocol, 0, "memory handle: garbled", decoded.checksum};
  }
  return decoded;
}

MemoryHandle encode_handle(wire::Handle handle) noexcept {
  handle.checksum = checksum_of(handle);
  return *MemoryHandle::from_bytes(bytes_of(handle));
}

MemoryHandle software_part(const wire::Handle& handle) noexcept {
  return *MemoryHandle::from_bytes(bytes_of(handle.software));
}

}  // namespace opal::btl::rdm
