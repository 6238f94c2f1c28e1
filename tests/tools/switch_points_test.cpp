// SPDX-License-Identifier: Apache-2.0
// What opal-perf tune makes of measured times: switch points on machines that were made up, and the way through a file
// into the configuration of the next process.
#include "runtime/tools/perf/report/switch_points.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

#include "opal/am/context.hpp"
#include "opal/btl/sm/config.hpp"
#include "opal/core/config/store.hpp"
#include "runtime/tools/perf/tune.hpp"

namespace opal::perf {
namespace {

/// Times that grow as base + slope * size.
Times line(double base, double slope, std::uint64_t first, std::uint64_t last) {
  Times times;
  for (std::uint64_t size = first; size <= last; size *= 2) times[size] = base + slope * static_cast<double>(size);
  return times;
}

std::optional<std::uint64_t> value(const std::vector<SwitchPoint>& points, std::string_view variable) {
  for (const SwitchPoint& point : points) {
    if (point.variable == variable) return point.bytes;
  }
  return std::nullopt;
}

Measurements machine() {
  Measurements measured;
  measured[Path::box] = line(300, 0.30, 64, 32768);
  measured[Path::fragment] = line(900, 0.18, 64, 32768);  // the box is ahead by more than noise to 4 KiB
  measured[Path::get] = line(1200, 0.15, 64, 1 << 20);    // messages win to 8 KiB
  measured[Path::mapped] = line(900, 0.06, 4096, 1 << 20);
  measured[Path::mapped_cooperative] = line(4000, 0.03, 4096, 1 << 20);  // ahead from 128 KiB on
  return measured;
}

TEST(SwitchPoints, LieWhereTheNextWayBecomesFaster) {
  const auto points = switch_points(machine());
  EXPECT_EQ(value(points, "btl_sm_fbox_limit"), 4096U + 128);
  EXPECT_EQ(value(points, "btl_sm_eager"), 8192U);
  EXPECT_EQ(value(points, "btl_sm_shared_help_from"), 131072U);
  for (const SwitchPoint& point : points) EXPECT_FALSE(point.reason.empty()) << point.variable;
}

TEST(SwitchPoints, OfWaysThatWereNotMeasuredKeepTheirDefaults) {
  Measurements measured = machine();
  measured.erase(Path::mapped);
  const auto points = switch_points(measured);
  EXPECT_EQ(value(points, "btl_sm_shared_help_from"), std::nullopt);
  EXPECT_TRUE(value(points, "btl_sm_eager"));
  EXPECT_TRUE(switch_points({}).empty());
}

TEST(SwitchPoints, HelpThatNeverPaysIsNeverAskedFor) {
  Measurements measured = machine();
  measured[Path::mapped_cooperative] = line(90'000, 0.9, 4096, 1 << 20);
  EXPECT_GT(value(switch_points(measured), "btl_sm_shared_help_from").value_or(0), 1U << 20);
}

TEST(SwitchPoints, ASingleNoisyPointIsNoSwitchWhenItDiffersByLittle) {
  Measurements measured = machine();
  measured[Path::box][1024] = measured[Path::fragment][1024];
  measured[Path::fragment][1024] *= 1.3;
  measured[Path::mapped_cooperative][131072] *= 1.12;
  const auto points = switch_points(measured);
  EXPECT_EQ(value(points, "btl_sm_fbox_limit"), 4096U + 128);
  EXPECT_EQ(value(points, "btl_sm_shared_help_from"), 131072U);
}

/// Whatever was measured, a Context opens with what is stored.
TEST(SwitchPoints, AreValuesWithWhichTheTransportOpens) {
  for (const double box : {1.0, 1e3, 1e9}) {
    for (const double get : {1.0, 1e3, 1e9}) {
      {
        Measurements measured;
        measured[Path::box] = measured[Path::fragment] = line(box, 0.1, 64, 32768);
        measured[Path::fragment][64] = 2e9;
        measured[Path::get] = line(get, 0.1, 64, 1 << 20);
        config::Store store;
        store.set("am_transports", "sm");
        std::string said;
        for (const SwitchPoint& point : switch_points(measured)) {
          store.set(point.variable, std::to_string(point.bytes));
          said += point.variable + '=' + std::to_string(point.bytes) + ' ';
        }
        const auto context = am::Context::open(store);
        EXPECT_TRUE(context) << said;
      }
    }
  }
}

/// The program measures two processes, stores, and the next process of this machine has the values.
TEST(PerfTune, WhatTheProgramStoresIsWhatTheNextProcessReads) {
  const std::filesystem::path home =
      std::filesystem::temp_directory_path() / ("opal-tune-test-" + std::to_string(::getpid()));
  ::setenv("XDG_CONFIG_HOME", home.c_str(), 1);
  std::string output;
  FILE* pipe = ::popen("timeout 60 " OPAL_PERF_PROGRAM " tune --size 1K:16K --iters 20 --json --store", "r");
  std::array<char, 4096> buffer{};
  while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe)) output.append(buffer.data(), got);
  ASSERT_EQ(WEXITSTATUS(::pclose(pipe)), 0) << output;

  const config::Store store = config::Store::from_environment();
  const auto config = store.load(btl::sm::kGroup);
  ASSERT_TRUE(config);
  std::map<std::string, std::string> in_force;
  for (const config::Listing& row : store.list(btl::sm::kGroup)) in_force[row.name] = row.value;
  std::set<std::string> measured;
  int points = 0;
  std::istringstream lines{output};
  for (std::string text; std::getline(lines, text);) {
    const auto json = nlohmann::json::parse(text);
    if (json.contains("op")) measured.insert(json["op"]);
    if (!json.contains("variable")) continue;
    ++points;
    config::Store alone;
    alone.set(json["variable"].get<std::string>(), std::to_string(json["value"].get<std::uint64_t>()));
    for (const config::Listing& row : alone.list(btl::sm::kGroup)) {
      if (row.name == json["variable"]) {
        EXPECT_EQ(in_force[row.name], row.value) << row.name;
      }
    }
  }
  EXPECT_GE(points, 3) << output;
  EXPECT_TRUE(measured.contains(name(Path::box)) && measured.contains(name(Path::get)) &&
              measured.contains(name(Path::mapped)))
      << output;
  EXPECT_TRUE(am::Context::open(store));
  ::unsetenv("XDG_CONFIG_HOME");
  std::filesystem::remove_all(home);
}

}  // namespace
}  // namespace opal::perf
