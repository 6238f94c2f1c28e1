// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/shared/rdm/address.hpp"

#include <algorithm>
#include <cstring>

namespace opal::btl::rdm {

Result<Address> decode(ByteSpan bytes, std::uint32_t magic) {
  Address address{};
  if (!read_object(bytes, address.head) || address.head.magic != magic) {
    return Error{Errc::protocol, 0, "address: not one of this transport", bytes.size()};
  }
  if (address.head.version != wire::kWireVersion) {
    return Error{Errc::version_mismatch, 0, "address: made by another version of OPAL", address.head.version};
  }
  const std::size_t size = address.head.name_size;
  if (size == 0 || size > wire::kMostName || bytes.size() != sizeof address.head + size) {
    return Error{Errc::protocol, 0, "address: wrong length", bytes.size()};
  }
  const ByteSpan name = bytes.subspan(sizeof address.head);
  address.name.assign(name.begin(), name.end());
  return address;
}

std::vector<std::byte> encode(const Address& address) {
  wire::AddressHead head = address.head;
  head.version = wire::kWireVersion;
  head.name_size = static_cast<std::uint16_t>(address.name.size());
  std::vector<std::byte> blob(sizeof head + address.name.size());
  std::memcpy(blob.data(), &head, sizeof head);
  std::copy(address.name.begin(), address.name.end(), blob.begin() + sizeof head);
  return blob;
}

Result<void> check_network(const wire::AddressHead& peer, const wire::AddressHead& own) {
  if (peer.network != own.network) {
    return Error{Errc::unreachable, 0, "the peer's network or libfabric provider is another one"};
  }
  if (peer.format != own.format) {
    return Error{Errc::unreachable, 0, "the peer's network has another address format", peer.format};
  }
  return {};
}

}  // namespace opal::btl::rdm
