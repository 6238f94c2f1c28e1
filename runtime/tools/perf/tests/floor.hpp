// SPDX-License-Identifier: Apache-2.0
// runtime/tools/perf/tests/floor.hpp — what this machine can do at all: a cache line between the two cores, and memcpy.
// Every figure of ours is told beside these, measured in the same run by the same processes.
#pragma once
#include <cstdint>
#include <optional>

#include "opal/core/bytes.hpp"
#include "runtime/tools/perf/report/row.hpp"

namespace opal::perf {

/// Bounces one cache line between the two processes of a pair.
class CacheLineFloor {
 public:
  /// `page` is mapped by both, and zeroed; may be empty.
  CacheLineFloor(int rank, MutableBytes page) noexcept : rank_(rank), page_(page) {}

  /// Both processes call it, once, and are through in a few seconds at most.  Rank 0 gets the one-way times, rank 1 and
  /// a pair without a page nothing.
  std::optional<Latency> measure();

 private:
  int rank_;
  MutableBytes page_;
  std::uint64_t turn_ = 0;
};

/// Bytes per second of memcpy of `size` bytes between two private buffers that were just used (warm).
double memcpy_Bps(std::uint64_t size);

}  // namespace opal::perf
