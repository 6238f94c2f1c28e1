// SPDX-License-Identifier: Apache-2.0
// Writes docs/results/scale.md's tables to stdout and its plot to the file named:  overlay_scale PLOT.svg
#include <fmt/format.h>
#include <fmt/os.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/sim/overlay_crowd.hpp"

namespace opal::test {
namespace {

constexpr CrowdCosts kFast{};  // a network adapter that the program talks to itself
constexpr CrowdCosts kTcp{.latency = 15'000, .send = 5'000, .receive = 10'000, .connect = 60'000};

struct Design {
  const char* name;
  const char* colour;
  CrowdCosts costs;
  unsigned radix;  // 0: a star
  std::uint32_t most;
};
// A simulated star of 100 000 takes hours: each step looks at all children of the root.
constexpr Design kDesigns[] = {{"tree over the transports", "#c00000", kFast, 16, 100'000},
                               {"tree over TCP", "#3060c0", kTcp, 16, 100'000},
                               {"star over TCP", "#408040", kTcp, 0, 10'000}};
constexpr std::uint32_t kCounts[] = {10, 100, 1'000, 10'000, 100'000};

struct Point {
  std::uint32_t count;
  CrowdResult result;
};

void print_row(const std::string& what, const Point& point) {
  const CrowdResult& r = point.result;
  // The heap of few members is what former runs left.
  const std::string memory = point.count < 1'000 ? "" : fmt::format("{} + {}", r.device_memory, r.member_memory);
  fmt::print("| {} | {} | {:.1f} | {:.0f} | {:.0f} | {:.1f} | {:.0f} | {} | {:.1f} | {} |\n", what, point.count,
             r.launch_ms, r.fence_us, r.broadcast_us, r.frames_each, r.bytes_each, r.root_frames,
             static_cast<double>(r.root_bytes) / 1e6, memory);
  std::fflush(stdout);
}

/// One diagram with logarithmic axes: counts from 10 to 100 000, values from `low` to `high`.
void draw(fmt::ostream& out, double left, const char* title, double low, double high,
          const std::vector<std::vector<Point>>& lines, double (*value)(const CrowdResult&)) {
  const auto x = [&](double count) { return left + 100 * (std::log10(count) - 1); };
  const auto y = [&](double v) {
    return 320 - 280 * (std::log10(v) - std::log10(low)) / (std::log10(high) - std::log10(low));
  };
  out.print("<text x=\"{}\" y=\"24\" font-weight=\"bold\">{}</text>", left, title);
  for (double grid = low; grid <= high * 1.01; grid *= 10) {
    out.print(
        "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.0f}\" y2=\"{2:.0f}\" stroke=\"#ddd\"/>"
        "<text x=\"{3}\" y=\"{4:.0f}\" text-anchor=\"end\">{5:g}</text>",
        left, left + 400, y(grid), left - 6, y(grid) + 4, grid);
  }
  for (const std::uint32_t count : kCounts) {
    out.print("<text x=\"{:.0f}\" y=\"338\" text-anchor=\"middle\">{}</text>", x(count), count);
  }
  for (std::size_t line = 0; line < lines.size(); ++line) {
    out.print("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\" points=\"", kDesigns[line].colour);
    for (const Point& point : lines[line]) out.print("{:.1f},{:.1f} ", x(point.count), y(value(point.result)));
    out.print("\"/><text x=\"{}\" y=\"{}\" fill=\"{}\">{}</text>", left + 10, 50 + 16 * line, kDesigns[line].colour,
              kDesigns[line].name);
  }
}

void run(const char* plot) {
  fmt::print(
      "| design | daemons | launch ms | fence us | broadcast us | frames each | bytes each | frames of the root | MB "
      "of "
      "the root | memory each: device + member |\n|---|---|---|---|---|---|---|---|---|---|\n");
  std::vector<std::vector<Point>> lines;
  for (const Design& design : kDesigns) {
    std::vector<Point>& line = lines.emplace_back();
    for (const std::uint32_t count : kCounts) {
      if (count > design.most) break;
      line.push_back({count, run_crowd(count, design.radix == 0 ? count - 1 : design.radix, design.costs)});
      print_row(design.name, line.back());
    }
  }
  for (const unsigned radix : {2U, 4U, 8U, 16U, 32U, 64U}) {
    print_row(fmt::format("tree over the transports, radix {}", radix), {10'000, run_crowd(10'000, radix, kFast)});
  }
  auto out = fmt::output_file(plot);
  out.print(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 980 350\" font-family=\"sans-serif\" "
      "font-size=\"11\"><rect width=\"980\" height=\"350\" fill=\"white\"/>");
  draw(out, 60, "launch, ms, over daemons", 1, 10'000, lines, [](const CrowdResult& r) { return r.launch_ms; });
  draw(out, 540, "fence, us, over daemons", 1, 1'000'000, lines, [](const CrowdResult& r) { return r.fence_us; });
  out.print("</svg>\n");
}

}  // namespace
}  // namespace opal::test

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: {} PLOT.svg\n", argv[0]);
    return 2;
  }
  ::testing::InitGoogleTest();  // the crowd checks itself with it
  opal::test::run(argv[1]);
  return ::testing::UnitTest::GetInstance()->Failed() ? 1 : 0;
}
