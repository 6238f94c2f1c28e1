// SPDX-License-Identifier: Apache-2.0
#include "opal/am/transports/key.hpp"

namespace opal::am {
namespace {

constexpr Error kGarbled{Errc::protocol, 0, "memory key: garbled", 0};

/// Removes a length byte and that many bytes from the front of `rest`; false if `rest` is too short.
bool take(ByteSpan& rest, ByteSpan& field) noexcept {
  if (rest.empty()) return false;
  const auto size = std::to_integer<std::size_t>(rest.front());
  if (rest.size() - 1 < size) return false;
  field = rest.subspan(1, size);
  rest = rest.subspan(1 + size);
  return true;
}

void append_field(std::vector<std::byte>& key, ByteSpan field) {
  key.push_back(static_cast<std::byte>(field.size()));
  key.insert(key.end(), field.begin(), field.end());
}

}  // namespace

void append_handle(std::vector<std::byte>& key, std::string_view transport, const MemoryHandle& handle) {
  if (key.empty()) key.push_back(std::byte{0});
  key.front() = static_cast<std::byte>(std::to_integer<unsigned>(key.front()) + 1);
  append_field(key, std::as_bytes(std::span{transport}));
  append_field(key, handle.bytes());
}

Result<MemoryHandle> find_handle(ByteSpan key, std::string_view transport) {
  if (key.empty()) return kGarbled;
  ByteSpan rest = key.subspan(1);
  ByteSpan shared;
  for (auto left = std::to_integer<unsigned>(key.front()); left > 0; --left) {
    ByteSpan name;
    ByteSpan handle;
    if (!take(rest, name) || !take(rest, handle)) return kGarbled;
    const std::string_view text{reinterpret_cast<const char*>(name.data()), name.size()};
    if (text == transport) return MemoryHandle::from_bytes(handle);
    if (text.empty()) shared = handle;
  }
  if (!rest.empty()) return kGarbled;
  if (shared.empty()) return Error{Errc::unreachable, 0, "memory key: has no handle for the transport in use"};
  return MemoryHandle::from_bytes(shared);
}

}  // namespace opal::am
