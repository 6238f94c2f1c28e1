// SPDX-License-Identifier: Apache-2.0
// runtime/tools/perf/report/switch_points.hpp — which ways of the shared-memory transport are fastest from where on,
// out of measured times.  Values and pure functions.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace opal::perf {

/// A way for some bytes from one process into a buffer of the other.
enum class Path : std::uint8_t {
  box,                 ///< one message through the fast box, copied out
  fragment,            ///< one message announced in the FIFO, copied out
  alone,               ///< an offer, then a get by single copy
  cooperative,         ///< an offer, then a get by both sides
  pipelined,           ///< an offer, then a get through chunks
  mapped,              ///< an offer, then a get of memory that is mapped here
  mapped_cooperative,  ///< the same by both sides
};
const char* name(Path path) noexcept;

/// Nanoseconds by bytes.
using Times = std::map<std::uint64_t, double>;
using Measurements = std::map<Path, Times>;

struct SwitchPoint {
  std::string variable;
  std::uint64_t bytes;
  std::string reason;  ///< one sentence with the times on both sides of it
};

/// What follows from the times; a variable is left out when one of the ways it chooses between was not measured, and
/// then keeps its default.  The values satisfy what btl_sm demands of them together.
std::vector<SwitchPoint> switch_points(const Measurements& measured);

}  // namespace opal::perf
