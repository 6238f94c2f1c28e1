// SPDX-License-Identifier: Apache-2.0
// runtime/tools/perf/report/row.hpp — one measured point, and the statistics it is made of.  Values.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace opal::perf {

/// Nanoseconds; of the batches measured.
struct Latency {
  double min = 0;
  double p50 = 0;
  double p99 = 0;
  double mean = 0;
};

/// Statistics of `samples` (ns each); all zero when there are none.
Latency statistics(std::vector<double> samples);

/// What was not measured stays empty.
struct Row {
  std::string test{};                     ///< "am_lat", ...
  std::string btl{};                      ///< transport; empty where none is involved
  std::uint64_t size = 0;                 ///< bytes
  std::uint64_t iterations = 0;           ///< operations in all
  std::optional<Latency> latency{};       ///< one way for *_lat
  std::optional<double> bandwidth_Bps{};  ///< payload
  std::optional<double> messages_per_s{};
  std::optional<double> floor_ns{};    ///< cache line one way, same processes, same run
  std::optional<double> memcpy_Bps{};  ///< memcpy of the same size, same run
  std::string op{};                    ///< reg: hit, miss, evict, invalidate; alloc, mem: what
  std::optional<std::uint64_t> threads{};
  std::optional<std::uint64_t> regions{};
};

}  // namespace opal::perf
