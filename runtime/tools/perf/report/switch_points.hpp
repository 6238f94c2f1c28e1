// SPDX-License-Identifier: Apache-2.0
// runtime/tools/perf/report/switch_points.hpp — computes from measured times at which message sizes the shared-memory
// transport should switch from one protocol to another.  Values and pure functions.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace opal::perf {

/// A protocol that moves bytes from one process into a buffer of another.
enum class Path : std::uint8_t {
  box,                 ///< one message through the fast box, copied out
  fragment,            ///< one message announced in the FIFO, copied out
  get,                 ///< an offer, then a get of private memory
  mapped,              ///< an offer, then a get of memory that the receiver has mapped
  mapped_cooperative,  ///< as mapped, but both sides copy
};
const char* name(Path path) noexcept;

/// Key: bytes; value: nanoseconds.
using Times = std::map<std::uint64_t, double>;
using Measurements = std::map<Path, Times>;

struct SwitchPoint {
  std::string variable;
  std::uint64_t bytes;
  std::string reason;  ///< a text with the times around the switch point
};

/// Computes the values of the variables.  A variable is left out, and keeps its default, when one of the protocols that
/// it chooses between was not measured.  The values satisfy the constraints of btl_sm between its variables.
std::vector<SwitchPoint> switch_points(const Measurements& measured);

}  // namespace opal::perf
