// SPDX-License-Identifier: Apache-2.0
#include "runtime/tools/perf/report/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

#include "opal/core/config/value.hpp"

namespace opal::perf {

Latency statistics(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double fraction) {
    return samples[static_cast<std::size_t>(fraction * static_cast<double>(samples.size() - 1))];
  };
  const double sum = std::accumulate(samples.begin(), samples.end(), 0.0);
  return {samples.front(), at(0.5), at(0.99), sum / static_cast<double>(samples.size())};
}

std::string to_json(const Row& row) {
  nlohmann::ordered_json json;
  json["test"] = row.test;
  json["btl"] = row.btl;
  json["size"] = row.size;
  json["iterations"] = row.iterations;
  if (!row.op.empty()) json["op"] = row.op;
  if (row.threads) json["threads"] = *row.threads;
  if (row.regions) json["regions"] = *row.regions;
  if (row.latency) {
    json["latency_ns"] = {
        {"min", row.latency->min}, {"p50", row.latency->p50}, {"p99", row.latency->p99}, {"mean", row.latency->mean}};
  }
  if (row.bandwidth_Bps) json["bandwidth_Bps"] = *row.bandwidth_Bps;
  if (row.messages_per_s) json["messages_per_s"] = *row.messages_per_s;
  if (row.floor_ns) json["floor_ns"] = *row.floor_ns;
  if (row.memcpy_Bps) json["memcpy_Bps"] = *row.memcpy_Bps;
  return json.dump();
}

std::string size_text(std::uint64_t bytes) { return config::to_string(config::Value{ByteSize{bytes}}); }

void TablePrinter::print(const Row& row) {
  const auto number = [](double value, int digits) { return fmt::format("{:.{}f}", value, digits); };
  // Only columns that this kind of row fills: everything fits 80 columns.
  std::string titles = fmt::format("{:>10}", "size");
  std::string line = fmt::format("{:>10}", size_text(row.size));
  const auto column = [&](const char* title, int width, const std::string& value) {
    titles += fmt::format(" {:>{}}", title, width);
    line += fmt::format(" {:>{}}", value, width);
  };
  if (row.latency) {
    column("min us", 10, number(row.latency->min / 1e3, 3));
    column("p50 us", 10, number(row.latency->p50 / 1e3, 3));
    column("p99 us", 10, number(row.latency->p99 / 1e3, 3));
  }
  if (row.bandwidth_Bps) column("MB/s", 10, number(*row.bandwidth_Bps / 1e6, 1));
  if (row.messages_per_s) column("messages/s", 12, number(*row.messages_per_s, 0));
  if (row.memcpy_Bps && row.op != "memcpy") column("memcpy MB/s", 12, number(*row.memcpy_Bps / 1e6, 1));
  std::string heading = row.btl.empty() ? row.test : fmt::format("{} over {}", row.test, row.btl);
  if (row.floor_ns && row.latency) {
    heading += fmt::format(" (a cache line between the two cores, one way: {} us)", number(*row.floor_ns / 1e3, 3));
  }
  heading += '\n' + titles;
  if (heading != heading_) fmt::print("\n{}\n", heading_ = heading);
  if (!row.op.empty()) line += "  " + row.op;
  if (row.threads) line += fmt::format("{}{} threads", row.op.empty() ? "  " : ", ", *row.threads);
  if (row.regions) line += fmt::format("{}{} regions", row.op.empty() ? "  " : ", ", *row.regions);
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

void report_switch_points(std::span<const SwitchPoint> points, bool json) {
  if (!json) fmt::print("\nswitch points\n");
  for (const SwitchPoint& point : points) {
    if (json) {
      nlohmann::ordered_json object;
      object["variable"] = point.variable;
      object["value"] = point.bytes;
      object["reason"] = point.reason;
      fmt::print("{}\n", object.dump());
    } else {
      fmt::print("{:<26} {:>10}  {}\n", point.variable, point.bytes, point.reason);
    }
  }
}

}  // namespace opal::perf
