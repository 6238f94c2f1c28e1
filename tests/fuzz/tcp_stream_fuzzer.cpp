// SPDX-License-Identifier: Apache-2.0
// What a tcp peer may send: frames cut in any way, and addresses.  The first byte decides how the rest is cut.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "opal/btl/tcp/connections/address.hpp"
#include "opal/btl/tcp/frame_reader.hpp"

using opal::btl::tcp::FrameReader;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const opal::ByteSpan input = std::as_bytes(std::span{data, size});
  if (const auto address = opal::btl::tcp::decode(input)) {
    // What was understood is written the same way.
    const auto again = opal::btl::tcp::encode(*address);
    if (!std::equal(again.begin(), again.end(), input.begin(), input.end())) std::abort();
  }
  if (input.empty()) return 0;
  const std::size_t step = std::to_integer<std::size_t>(input[0]) + 1;
  opal::ByteSpan rest = input.subspan(1);
  constexpr std::size_t kMax = 200;
  alignas(8) std::array<std::byte, FrameReader::buffer_size(kMax)> buffer;
  FrameReader reader{buffer, kMax};
  std::size_t sum = 0;
  while (true) {
    const FrameReader::Next next = reader.next();
    if (next == FrameReader::Next::message) {
      if (reader.payload().size() > kMax || reader.tag() == 0) std::abort();
      for (const std::byte one : reader.payload()) sum += std::to_integer<std::size_t>(one);
      continue;
    }
    if (next != FrameReader::Next::incomplete || rest.empty()) break;
    const opal::MutableBytes room = reader.room();
    if (room.empty()) std::abort();
    const std::size_t count = std::min({room.size(), step, rest.size()});
    std::memcpy(room.data(), rest.data(), count);
    reader.received(count);
    rest = rest.subspan(count);
  }
  return sum == ~std::size_t{0} ? 1 : 0;
}
