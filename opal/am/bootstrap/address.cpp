// SPDX-License-Identifier: Apache-2.0
#include "opal/am/bootstrap/address.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace opal::am {
namespace {

constexpr std::uint32_t kMagic = 0x4d41504f;  // "OPAM"
constexpr std::uint16_t kVersion = 1;

struct Header {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t count;
  std::uint64_t id_high;
  std::uint64_t id_low;
};
static_assert(sizeof(Header) == 24 && std::has_unique_object_representations_v<Header>, "wire layout v1");

struct Entry {
  std::array<char, 16> transport;
  std::uint32_t size;
};
static_assert(sizeof(Entry) == 20 && std::has_unique_object_representations_v<Entry>, "wire layout v1");

void append(std::vector<std::byte>& out, ByteSpan bytes) {
  const std::size_t end = out.size();
  out.resize(end + bytes.size());
  if (!bytes.empty()) std::memcpy(out.data() + end, bytes.data(), bytes.size());
}

}  // namespace

std::vector<std::byte> encode(const Address& address) {
  std::vector<std::byte> out;
  const auto count = static_cast<std::uint16_t>(address.transports.size());
  append(out, bytes_of(Header{kMagic, kVersion, count, address.id.high, address.id.low}));
  for (const TransportAddress& transport : address.transports) {
    Entry entry{{}, static_cast<std::uint32_t>(transport.address.size())};
    // The last byte stays zero, so that a name of this process is always terminated.
    std::copy_n(transport.transport.begin(), std::min(transport.transport.size(), entry.transport.size() - 1),
                entry.transport.begin());
    append(out, bytes_of(entry));
    append(out, transport.address);
  }
  return out;
}

Result<Address> decode(ByteSpan bytes) {
  Header header{};
  if (bytes.size() > kMaxAddressSize || !read_object(bytes, header) || header.magic != kMagic) {
    return Error{Errc::protocol, 0, "address: not an OPAL address", bytes.size()};
  }
  if (header.version != kVersion) {
    return Error{Errc::version_mismatch, 0, "address: made by another version of OPAL", header.version};
  }
  if (header.count > kMaxTransports) return Error{Errc::protocol, 0, "address: too many transports", header.count};
  Address address{{header.id_high, header.id_low}, {}};
  ByteSpan rest = bytes.subspan(sizeof header);
  for (std::uint16_t i = 0; i < header.count; ++i) {
    Entry entry{};
    if (!read_object(rest, entry)) return Error{Errc::protocol, 0, "address: truncated", bytes.size()};
    rest = rest.subspan(sizeof entry);
    if (entry.size > rest.size()) return Error{Errc::protocol, 0, "address: truncated", bytes.size()};
    // The name must be viewed in the caller's bytes, not in the local copy.
    const char* name = reinterpret_cast<const char*>(rest.data()) - sizeof entry;
    address.transports.push_back({{name, ::strnlen(name, entry.transport.size())}, rest.first(entry.size)});
    rest = rest.subspan(entry.size);
  }
  if (!rest.empty()) return Error{Errc::protocol, 0, "address: bytes after the end", rest.size()};
  return address;
}

}  // namespace opal::am
