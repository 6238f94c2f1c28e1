// SPDX-License-Identifier: Apache-2.0
// runtime/tools/perf/report/report.hpp — measured rows for people (a table), for programs (JSON lines) and as a picture
// (SVG).
#pragma once
#include <span>
#include <string>
#include <vector>

#include "opal/core/result.hpp"
#include "runtime/tools/perf/report/row.hpp"
#include "runtime/tools/perf/report/switch_points.hpp"

namespace opal::perf {

/// A row as one JSON object without newline, with the field names of the command contract in ARCHITECTURE.md.
std::string to_json(const Row& row);

/// Prints rows as they come; a heading whenever the test or the transport changes.
class TablePrinter {
 public:
  void print(const Row& row);

 private:
  std::string heading_;
};

/// "8", "4 KiB", "1 MiB"
std::string size_text(std::uint64_t bytes);

/// What follows from a tune, for people or as one JSON object per line.
void report_switch_points(std::span<const SwitchPoint> points, bool json);

/// Draws latency and bandwidth over size, one line per test and transport, log-log, beside the machine's floor.
/// Errors: os (the file cannot be written), invalid_argument (no row has a size).
Result<void> plot(std::span<const Row> rows, const std::string& path);

}  // namespace opal::perf
