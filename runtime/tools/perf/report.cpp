// SPDX-License-Identifier: Apache-2.0
#include "runtime/tools/perf/report.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

namespace opal::perf {

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

std::string size_text(std::uint64_t bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && bytes % 1024 == 0 && unit < 3) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", bytes, units[unit]);
}

void TablePrinter::print(const Row& row) {
  const std::string heading = row.btl.empty() ? row.test : fmt::format("{} over {}", row.test, row.btl);
  if (heading != heading_) {
    heading_ = heading;
    fmt::print("\n{}\n{:>10} {:>12} {:>12} {:>12} {:>12} {:>14} {:>10} {:>10}  {}\n", heading, "size", "min us",
               "p50 us", "p99 us", "GB/s", "messages/s", "floor us", "copy GB/s", "");
  }
  const auto microseconds = [](const std::optional<double>& ns) { return ns ? fmt::format("{:.3f}", *ns / 1e3) : "-"; };
  const auto gigabytes = [](const std::optional<double>& rate) {
    return rate ? fmt::format("{:.3f}", *rate / 1e9) : "-";
  };
  const auto latency = [&](double Latency::*field) {
    return row.latency ? fmt::format("{:.3f}", *row.latency.*field / 1e3) : "-";
  };
  std::string note = row.op;
  if (row.threads) note += fmt::format("{}{} threads", note.empty() ? "" : ", ", *row.threads);
  if (row.regions) note += fmt::format("{}{} regions", note.empty() ? "" : ", ", *row.regions);
  fmt::print("{:>10} {:>12} {:>12} {:>12} {:>12} {:>14} {:>10} {:>10}  {}\n", size_text(row.size),
             latency(&Latency::min), latency(&Latency::p50), latency(&Latency::p99), gigabytes(row.bandwidth_Bps),
             row.messages_per_s ? fmt::format("{:.0f}", *row.messages_per_s) : "-", microseconds(row.floor_ns),
             gigabytes(row.memcpy_Bps), note);
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
