// SPDX-License-Identifier: Apache-2.0
// Two log-log charts in one SVG file: latency over size on top, bandwidth over size below.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <ctime>
#include <fstream>
#include <map>

#include "opal/core/build_info.hpp"
#include "opal/core/environment.hpp"
#include "opal/core/system/machine.hpp"
#include "runtime/tools/perf/report/report.hpp"

namespace opal::perf {
namespace {

constexpr double kWidth = 900;
constexpr double kPanelHeight = 380;
constexpr double kLeft = 80;
constexpr double kRight = 250;  // room for the legend
constexpr double kTop = 50;
constexpr double kCaption = 30;  // above the panels
constexpr double kBottom = 50;
constexpr const char* kColours[] = {"#1b6ca8", "#c0392b", "#27864a", "#8e44ad", "#b9770e", "#148f8f",
                                    "#5d6d7e", "#d35489", "#7a8b1f", "#4b3f9e", "#e07b39", "#2f4f4f"};

struct Line {
  std::vector<std::pair<double, double>> points;  // size, value
  bool dashed = false;                            // what the machine can do, not what we do
};
using Lines = std::map<std::string, Line>;

struct Axis {
  double low;
  double high;
  double from;
  double to;
  [[nodiscard]] double at(double value) const { return from + (to - from) * (std::log10(value) - low) / (high - low); }
};

std::string value_text(double value, const char* unit) {
  const char* prefixes[] = {"n", "u", "m", "", "k", "M", "G", "T"};
  const int group = static_cast<int>(std::floor(std::log10(value) / 3 + 1e-9));
  const int index = std::min(std::max(group + 3, 0), 7);
  return fmt::format("{:g} {}{}", value / std::pow(10.0, 3.0 * (index - 3)), prefixes[index], unit);
}

/// One chart from `top` downwards.
std::string panel(const Lines& lines, double top, const char* title, const char* unit) {
  double min_x = 1e300, max_x = 0, min_y = 1e300, max_y = 0;
  for (const auto& [name, line] : lines) {
    for (const auto& [x, y] : line.points) {
      min_x = std::min(min_x, x), max_x = std::max(max_x, x);
      min_y = std::min(min_y, y), max_y = std::max(max_y, y);
    }
  }
  const Axis x{std::log10(min_x), std::log10(std::max(max_x, min_x * 2)), kLeft, kWidth - kRight};
  const Axis y{std::floor(std::log10(min_y)), std::max(std::ceil(std::log10(max_y)), std::floor(std::log10(min_y)) + 1),
               top + kPanelHeight - kBottom, top + kTop};
  std::string svg = fmt::format("<text x='{}' y='{}' class='title'>{}</text>\n", kLeft, top + kTop - 18, title);
  for (double decade = y.low; decade <= y.high + 0.5; ++decade) {
    const double value = std::pow(10.0, decade);
    svg += fmt::format("<line x1='{}' x2='{}' y1='{:.1f}' y2='{:.1f}' class='grid'/>\n", x.from, x.to, y.at(value),
                       y.at(value));
    svg += fmt::format("<text x='{}' y='{:.1f}' class='right'>{}</text>\n", kLeft - 8, y.at(value) + 4,
                       value_text(value, unit));
  }
  for (double size = 1; size <= max_x; size *= 8) {
    if (size < min_x) continue;
    svg += fmt::format("<line x1='{:.1f}' x2='{:.1f}' y1='{}' y2='{}' class='grid'/>\n", x.at(size), x.at(size), y.from,
                       y.to);
    svg += fmt::format("<text x='{:.1f}' y='{}' class='middle'>{}</text>\n", x.at(size), y.from + 20,
                       size_text(static_cast<std::uint64_t>(size)));
  }
  std::size_t index = 0;
  for (const auto& [name, line] : lines) {
    const char* colour = line.dashed ? "#888888" : kColours[index % std::size(kColours)];
    std::string points;
    for (const auto& [size, value] : line.points) points += fmt::format("{:.1f},{:.1f} ", x.at(size), y.at(value));
    svg += fmt::format("<polyline points='{}' fill='none' stroke='{}' stroke-width='2'{}/>\n", points, colour,
                       line.dashed ? " stroke-dasharray='6 4'" : "");
    const double at = top + kTop + 10 + 18.0 * static_cast<double>(index);
    svg += fmt::format("<line x1='{}' x2='{}' y1='{}' y2='{}' stroke='{}' stroke-width='3'{}/>\n", kWidth - kRight + 15,
                       kWidth - kRight + 40, at, at, colour, line.dashed ? " stroke-dasharray='6 4'" : "");
    svg += fmt::format("<text x='{}' y='{}'>{}</text>\n", kWidth - kRight + 46, at + 4, name);
    ++index;
  }
  return svg;
}

/// What a test measures, in the legend's few words.
std::string words(const std::string& test) {
  static const std::map<std::string, const char*> words_of{
      {"am_lat", "message, one way"},
      {"am_bw", "messages, streamed"},
      {"am_rate", "messages, streamed"},
      {"put_lat", "put, until visible"},
      {"get_lat", "get"},
      {"put_bw", "puts, 16 in flight"},
      {"get_bw", "gets, 16 in flight"},
      {"oob_lat", "message between two daemons"},
  };
  const auto found = words_of.find(test);
  return found != words_of.end() ? found->second : test;
}

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) safe += c == '<' || c == '>' || c == '&' ? ' ' : c;
  return safe;
}

/// Where and when: a picture is looked at far from its machine.
std::string caption() {
  std::array<char, 32> date{};
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  (void)std::strftime(date.data(), date.size(), "%Y-%m-%d %H:%M", ::localtime_r(&now, &parts));
  return escaped(
      fmt::format("OPAL {}, 2 processes, {}: {}, {}", build_info().version, host_name(), machine_kind(), date.data()));
}

}  // namespace

Result<void> plot(std::span<const Row> rows, const std::string& path) {
  Lines latency;
  Lines bandwidth;
  // am_rate streams as am_bw does, at fewer sizes: it is drawn only alone.
  const bool streams = std::any_of(rows.begin(), rows.end(), [](const Row& row) { return row.test == "am_bw"; });
  for (const Row& row : rows) {
    if (row.size == 0 || row.test == "floor") continue;  // the floor is drawn from what it says beside the others
    const auto size = static_cast<double>(row.size);
    const std::string name = row.btl.empty() ? words(row.test) : fmt::format("{}: {}", row.btl, words(row.test));
    if (row.latency && row.latency->p50 > 0) latency[name].points.emplace_back(size, row.latency->p50 * 1e-9);
    if (row.bandwidth_Bps && *row.bandwidth_Bps > 0 && !(streams && row.test == "am_rate"))
      bandwidth[name].points.emplace_back(size, *row.bandwidth_Bps);
    if (row.memcpy_Bps && row.bandwidth_Bps) {
      Line& copy = bandwidth["memcpy on one core"];
      copy.dashed = true;
      if (copy.points.empty() || copy.points.back().first < size) copy.points.emplace_back(size, *row.memcpy_Bps);
    }
    if (row.floor_ns && row.latency) {
      Line& floor = latency["cache line between two cores"];
      floor.dashed = true;
      if (floor.points.empty() || floor.points.back().first < size)
        floor.points.emplace_back(size, *row.floor_ns * 1e-9);
    }
  }
  // A single size is no line: such tests are for the table.
  const auto is_point = [](const auto& line) {
    return line.second.points.size() < 2 || line.second.points.front().first == line.second.points.back().first;
  };
  std::erase_if(latency, is_point);
  std::erase_if(bandwidth, is_point);
  if (latency.empty() && bandwidth.empty()) return Error{Errc::invalid_argument, 0, "plot: nothing measured over size"};
  const double panels = (latency.empty() ? 0 : 1) + (bandwidth.empty() ? 0 : 1);
  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' width='{0}' height='{1}' viewBox='0 0 {0} {1}'>\n"
      "<style>text{{font:12px sans-serif;fill:#222}} .title{{font-size:15px;font-weight:bold}} "
      ".right{{text-anchor:end}} "
      ".middle{{text-anchor:middle}} .grid{{stroke:#ddd}}</style>\n<rect width='100%' height='100%' fill='white'/>\n",
      kWidth, kPanelHeight * panels + kCaption);
  svg += fmt::format("<text x='{}' y='{}'>{}</text>\n", 20, 24, caption());
  double top = kCaption;
  if (!latency.empty()) {
    svg += panel(latency, top, "Time over size (median)", "s");
    top += kPanelHeight;
  }
  if (!bandwidth.empty()) svg += panel(bandwidth, top, "Bandwidth over size", "B/s");
  svg += "</svg>\n";
  std::ofstream file{path};
  file << svg;
  file.close();
  if (!file) return Error{Errc::os, errno, "plot: cannot write the SVG file"};
  return {};
}

}  // namespace opal::perf
