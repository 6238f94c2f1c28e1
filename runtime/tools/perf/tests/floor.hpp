// SPDX-License-Identifier: Apache-2.0
// runtime/tools/perf/tests/floor.hpp — what this machine can do at all: a cache line between the two cores, and memcpy.
// Every figure of ours is told beside these, measured in the same run by the same processes.
#pragma once
#include <cstdint>
#include <optional>

#include "opal/core/bytes.hpp"
#include "runtime/tools/perf/report/row.hpp"

namespace opal::perf {

/// Bounces one cache line between the two processes of a pair: one-way times.  Both call it, once, and are through in a
/// few seconds at most; rank 1 gets nothing.  `page` is mapped by both, and zeroed; where it is empty, rank 0 gets
/// nothing either.
std::optional<Latency> cache_line_floor(int rank, MutableBytes page);
/// Bytes per second of memcpy of `size` bytes between two private buffers that were just used (warm).
double memcpy_Bps(std::uint64_t size);

}  // namespace opal::perf
