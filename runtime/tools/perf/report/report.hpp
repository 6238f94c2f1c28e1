// SPDX-License-Identifier: Apache-2.0
// runtime/tools/perf/report/report.hpp — the results of measurements, and their output as a table, as JSON lines and as
// an SVG plot.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "opal/core/result.hpp"
#include "runtime/tools/perf/report/switch_points.hpp"

namespace opal::perf {

/// Nanoseconds per operation: statistics over the measured batches.
struct Latency {
  double min = 0;
  double p50 = 0;
  double p99 = 0;
  double mean = 0;
};

/// Statistics of `samples` (ns each); all zero when there are none.
Latency statistics(std::vector<double> samples);

/// One measured point.  A member without a measured value is empty.
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
  std::string op{};  ///< the operation measured, where a test has several: "hit", "memcpy", "add", ...
  std::optional<std::uint64_t> threads{};
  std::optional<std::uint64_t> regions{};
};

/// A row as one JSON object without newline, with the field names of the command contract in ARCHITECTURE.md.
std::string to_json(const Row& row);

/// Prints each row at once to stdout, and a heading when it differs from the last one.
class TablePrinter {
 public:
  void print(const Row& row);

 private:
  std::string heading_;
};

/// "8", "4 KiB", "1 MiB"
std::string size_text(std::uint64_t bytes);

/// Prints the result of a tune, as a table or as one JSON object per line.
void report_switch_points(std::span<const SwitchPoint> points, bool json);

/// Writes an SVG file with latency and bandwidth over size: log-log, one line per test and transport, and the floor.
/// Errors: os (the file cannot be written), invalid_argument (no row has a size).
Result<void> plot(std::span<const Row> rows, const std::string& path);

}  // namespace opal::perf
