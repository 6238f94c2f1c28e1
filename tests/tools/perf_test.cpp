// SPDX-License-Identifier: Apache-2.0
// opal-perf: its statistics, its output forms, and the program itself on short runs over every transport.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "opal/btl/registry.hpp"
#include "opal/core/build_info.hpp"
#include "opal/core/environment.hpp"
#include "runtime/tools/perf/report/report.hpp"
#include "runtime/tools/perf/tests/sampling.hpp"

namespace opal::perf {
namespace {

using ::testing::HasSubstr;

struct Ran {
  int status;
  std::string output;
};

Ran run(const std::string& arguments) {
  Ran ran{-1, {}};
  FILE* pipe = ::popen(("timeout 180 " OPAL_PERF_PROGRAM " " + arguments + " 2>&1").c_str(), "r");
  std::array<char, 4096> buffer{};
  while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe))
    ran.output.append(buffer.data(), got);
  ran.status = WEXITSTATUS(::pclose(pipe));
  return ran;
}

TEST(PerfStatistics, MedianAndTailComeFromTheSortedSamples) {
  std::vector<double> samples;
  for (int i = 100; i >= 1; --i) samples.push_back(i);
  const Latency latency = statistics(samples);
  EXPECT_EQ(latency.min, 1);
  EXPECT_EQ(latency.p50, 50);
  EXPECT_EQ(latency.p99, 99);
  EXPECT_DOUBLE_EQ(latency.mean, 50.5);
  EXPECT_EQ(statistics({}).mean, 0);
}

TEST(PerfReport, SizesAreWrittenInTheLargestUnitThatIsExact) {
  EXPECT_EQ(size_text(8), "8 B");
  EXPECT_EQ(size_text(1000), "1000 B");
  EXPECT_EQ(size_text(4096), "4 KiB");
  EXPECT_EQ(size_text(3 << 20), "3 MiB");
}

TEST(PerfReport, JsonHasTheContractsFieldsAndLeavesOutWhatWasNotMeasured) {
  Row row{.test = "am_lat", .btl = "sm", .size = 8, .iterations = 100};
  row.latency = Latency{1, 2, 3, 2.5};
  row.floor_ns = 70;
  const auto json = nlohmann::json::parse(to_json(row));
  EXPECT_EQ(json["test"], "am_lat");
  EXPECT_EQ(json["btl"], "sm");
  EXPECT_EQ(json["size"], 8);
  EXPECT_EQ(json["iterations"], 100);
  EXPECT_EQ(json["latency_ns"]["p50"], 2.0);
  EXPECT_EQ(json["latency_ns"]["p99"], 3.0);
  EXPECT_EQ(json["floor_ns"], 70.0);
  EXPECT_FALSE(json.contains("bandwidth_Bps"));
}

TEST(PerfPlot, DrawsALinePerTestAndTransportAndRefusesNothing) {
  const std::string path = std::filesystem::temp_directory_path() / "opal_perf_plot_test.svg";
  std::vector<Row> rows;
  for (std::uint64_t size = 8; size <= 4096; size *= 2) {
    Row row{.test = "am_lat", .btl = "sm", .size = size, .iterations = 1};
    row.latency = Latency{100, 120, 150, 125};
    rows.push_back(row);
    row.btl = "tcp";
    row.latency = Latency{9000, 9500, 12000, 10000};
    rows.push_back(row);
  }
  ASSERT_TRUE(plot(rows, path));
  std::ifstream file{path};
  std::stringstream svg;
  svg << file.rdbuf();
  EXPECT_THAT(svg.str(), HasSubstr("sm: message, one way"));
  EXPECT_THAT(svg.str(), HasSubstr("tcp: message, one way"));
  EXPECT_THAT(svg.str(), HasSubstr("OPAL " + std::string{build_info().version})) << "where and when";
  EXPECT_THAT(svg.str(), HasSubstr(host_name()));
  EXPECT_THAT(svg.str(), HasSubstr("4 KiB"));
  std::filesystem::remove(path);
  EXPECT_EQ(plot({}, path).error().code, Errc::invalid_argument);
  EXPECT_EQ(plot(rows, "/nonexistent-directory/x.svg").error().code, Errc::os);
}

TEST(PerfProgram, MeasuresMessagesAndPutsAndWritesOneJsonObjectPerLine) {
  const btl::Registry registry = btl::Registry::with_builtins();
  for (const btl::Component* component : registry.components()) {
    const std::string transport{component->name};
    if (component->reach != btl::Reach::others || !component->usable(config::Store{})) continue;
    for (const char* test : {"am_lat", "am_rate", "put_lat", "get_bw", "atomic_lat"}) {
      const Ran ran = run(std::string{test} + " --btl " + transport + " --size 8:64 --iters 50 --json");
      ASSERT_EQ(ran.status, 0) << ran.output;
      std::istringstream lines{ran.output};
      std::string line;
      int count = 0;
      while (std::getline(lines, line)) {
        const auto json = nlohmann::json::parse(line);
        EXPECT_EQ(json["test"], test);
        EXPECT_EQ(json["btl"], transport);
        EXPECT_TRUE(json.contains("latency_ns") || json.contains("bandwidth_Bps"));
        ++count;
      }
      EXPECT_GT(count, 0) << test;
    }
  }
}

TEST(PerfProgram, MeasuresTheFloorTheCacheTheAllocatorsAndTheMemory) {
  for (const char* test : {"floor", "alloc --size 64 --iters 100", "reg --iters 1000"}) {
    const Ran ran = run(std::string{test} + " --json");
    EXPECT_EQ(ran.status, 0) << test << ran.output;
    EXPECT_TRUE(nlohmann::json::accept(ran.output.substr(0, ran.output.find('\n')))) << ran.output;
  }
}

TEST(PerfProgram, MeasuresTheOutOfBandChannelBeforeAndAfterItsUpgrade) {
  for (const std::string transport : {"tcp", "sm"}) {
    const Ran ran = run("oob_lat --size 8 --iters 50 --json --btl " + transport);
    ASSERT_EQ(ran.status, 0) << ran.output;
    const auto json = nlohmann::json::parse(ran.output);
    EXPECT_EQ(json["test"], "oob_lat");
    EXPECT_EQ(json["btl"], transport);
    EXPECT_TRUE(json.contains("latency_ns"));
  }
  const Ran self = run("oob_lat --size 8 --btl self");
  EXPECT_EQ(self.status, 1);
  EXPECT_THAT(self.output, HasSubstr("stays on tcp"));
  const Ran long_one = run("oob_lat --size 16M --btl tcp");
  EXPECT_EQ(long_one.status, 1) << "both processes end";
  EXPECT_THAT(long_one.output, HasSubstr("message too long"));
}

TEST(PerfProgram, SaysWhatIsWrongWithItsArguments) {
  EXPECT_THAT(run("am_lat --size banana").output, HasSubstr("--size"));
  EXPECT_THAT(run("no_such_test").output, HasSubstr("TEST"));
  EXPECT_THAT(run("am_lat --btl pigeon --iters 1").output, HasSubstr("pigeon"));
  for (const char* wrong :
       {"", "no_such_test", "am_lat --size banana", "am_lat --size 0", "am_lat --size 8 --frobnicate",
        "am_lat --btl pigeon", "floor --plot x.svg", "am_lat --size 8 --plot x.svg"}) {
    EXPECT_EQ(run(wrong).status, 2) << wrong;
  }
  EXPECT_EQ(run("--help").status, 0);
  EXPECT_THAT(run("--version").output, HasSubstr(build_info().version));
}

TEST(PerfProgram, FindsOutThatThePictureCannotBeWrittenBeforeItMeasures) {
  const Ran ran = run("am_lat --btl sm --plot /nonexistent/x.svg");
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.output, HasSubstr("/nonexistent/x.svg: No such file or directory"));
  EXPECT_THAT(ran.output, ::testing::Not(HasSubstr("p50")));
}

TEST(PerfProgram, NamesSizesThatATransportCannotSend) {
  const Ran none = run("am_bw --btl sm --size 1M");
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.output, HasSubstr("am_bw over sm: 1 sizes left out: a message takes 8 B to 32 KiB"));
  const Ran some = run("am_bw --btl sm --size 32K:64K --iters 40");
  EXPECT_EQ(some.status, 0);
  EXPECT_THAT(some.output, HasSubstr("1 sizes left out"));
}

/// Each operation of the second kind takes a thousand times as long as those by which the number is estimated.
TEST(PerfSampling, IsBoundedByTimeWhenOperationsBecomeSlow) {
  std::uint64_t calls = 0;
  std::uint64_t slow = 0;
  const auto operation = [&](std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t length = ++calls <= 10'000 ? 1'000 : 1'000'000;
      if (length != 1'000) ++slow;
      const std::uint64_t end = now_ns() + length;
      while (now_ns() < end) {
      }
    }
    return true;
  };
  const Samples samples = sample(0, operation);
  EXPECT_FALSE(samples.ns.empty());
  // 200,000 of them were planned; 400 ms have room for 400, and the last stretch of about 20 may overrun.
  EXPECT_LE(slow, 450U);
}

TEST(PerfTable, FitsEightyColumnsAndEndsWithoutBlanks) {
  testing::internal::CaptureStdout();
  TablePrinter table;
  Row row{.test = "am_bw", .btl = "smcuda", .size = 65536, .iterations = 1};
  row.bandwidth_Bps = 123456789012.0;
  row.messages_per_s = 1234567890.0;
  row.memcpy_Bps = 123456789012.0;
  row.floor_ns = 70;
  table.print(row);
  row.test = "am_lat";
  row.latency = Latency{1e9, 2e9, 3e9, 2e9};
  row.bandwidth_Bps.reset();
  row.messages_per_s.reset();
  row.memcpy_Bps.reset();
  table.print(row);
  std::istringstream lines{testing::internal::GetCapturedStdout()};
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_LE(line.size(), 80U) << line;
    EXPECT_FALSE(line.ends_with(' ')) << line;
    EXPECT_EQ(line.find(" -"), std::string::npos) << line;
  }
  EXPECT_EQ(count, 8);
}

}  // namespace
}  // namespace opal::perf
