// SPDX-License-Identifier: Apache-2.0
// What peers of transports over reliable datagrams (ofi, portals4) send before they have proven anything: addresses
// and Hellos; and memory handles.
#include <cstdint>
#include <cstdlib>

#include "opal/btl/shared/proofs.hpp"
#include "opal/btl/shared/rdm/address.hpp"
#include "opal/btl/shared/registrations/device_handle.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace opal;
  using namespace opal::btl::rdm;
  const ByteSpan bytes = std::as_bytes(std::span{data, size});
  std::size_t sum = 0;
  if (const auto address = decode(bytes, 0x6f66696f)) {
    if (encode(*address) != std::vector<std::byte>{bytes.begin(), bytes.end()}) std::abort();
    sum += address->name.size();
  }
  wire::Hello hello{};
  if (read_object(bytes, hello)) {
    // A key that was drawn here cannot be guessed.
    static const Secret key = *Secret::from_text(Secret::random_text());
    if (btl::is_genuine(key, hello, bytes_of(hello.from), bytes.subspan(sizeof hello))) std::abort();
  }
  if (const auto handle = MemoryHandle::from_bytes(bytes)) {
    if (const auto decoded = btl::DeviceHandle::decode(*handle)) sum += decoded->software.slot;
  }
  return sum == ~std::size_t{0} ? -1 : 0;
}
