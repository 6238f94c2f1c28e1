// SPDX-License-Identifier: Apache-2.0
// Two localities as peers send them: comparing is symmetric, bounded and never goes wrong.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "opal/topology/locality.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 8192) return 0;
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  const std::size_t middle = text.find('\n');
  const std::string_view a = text.substr(0, middle);
  const std::string_view b = middle == std::string_view::npos ? std::string_view{} : text.substr(middle + 1);
  const auto shared = opal::topology::nearest_shared(a, b);
  if (shared != opal::topology::nearest_shared(b, a)) std::abort();
  return 0;
}
