// SPDX-License-Identifier: Apache-2.0
// What peers send before anything else: addresses and memory keys.  Neither may crash, or reach beyond its bytes.
#include <cstdint>
#include <cstdlib>

#include "opal/am/bootstrap/address.hpp"
#include "opal/am/transports/key.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const opal::ByteSpan bytes = std::as_bytes(std::span{data, size});
  unsigned sum = 0;
  if (const auto address = opal::am::decode(bytes)) {
    for (const opal::am::TransportAddress& entry : address->transports) {
      for (const char c : entry.transport) sum += static_cast<unsigned char>(c);
      for (const std::byte byte : entry.address) sum += std::to_integer<unsigned>(byte);
    }
    // What was understood is written the same way again, but for names without an end and bytes after it.
    if (opal::am::encode(*address).size() != size) std::abort();
  }
  for (const char* name : {"sm", "tcp", "verbs"}) {
    if (const auto handle = opal::am::find_handle(bytes, name)) {
      for (const std::byte byte : handle->bytes()) sum += std::to_integer<unsigned>(byte);
    }
  }
  return sum == 0xffffffffU ? -1 : 0;
}
