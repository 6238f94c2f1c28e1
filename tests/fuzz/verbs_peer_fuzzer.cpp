// SPDX-License-Identifier: Apache-2.0
// What peers of the verbs transport send before they have proven anything: addresses, and requests.
#include <cstdint>
#include <cstdlib>

#include "opal/btl/shared/proofs.hpp"
#include "opal/btl/verbs/connections/address.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace opal;
  using namespace opal::btl::verbs;
  const ByteSpan bytes = std::as_bytes(std::span{data, size});
  std::size_t sum = 0;
  if (const auto address = decode(bytes)) {
    const btl::SocketAddress socket = socket_of(*address);
    if (socket.ip != address->ip || socket.port_number() != address->port) std::abort();
    sum += to_string(socket).size();
  }
  wire::Request request{};
  if (read_object(bytes, request)) {
    // A key that was drawn here cannot be guessed.
    static const Secret key = *Secret::from_text(Secret::random_text());
    if (btl::is_genuine(key, request, bytes_of(request.from))) std::abort();
    sum += static_cast<std::size_t>(request.purpose);
  }
  return sum == ~std::size_t{0} ? -1 : 0;
}
