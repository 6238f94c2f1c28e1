// SPDX-License-Identifier: Apache-2.0
// What ranks print arrives whole and complete; what is typed reaches rank 0.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <map>

#include "runtime/stdio/line_merger.hpp"
#include "tests/runtime/launched_job.hpp"

namespace runtime::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(LineBuffer, HoldsTheUnfinishedLineBack) {
  stdio::LineBuffer buffer;
  EXPECT_EQ(buffer.append("one\ntwo\nthr"), "one\ntwo\n");
  EXPECT_EQ(buffer.append("e"), "");
  EXPECT_EQ(buffer.append("e\n"), "three\n");
  EXPECT_TRUE(buffer.empty());
}

TEST(LineBuffer, PassesALineOnThatIsLongerThanItsLimit) {
  stdio::LineBuffer buffer;
  const std::string part(stdio::LineBuffer::kLongestLine, 'x');
  EXPECT_EQ(buffer.append(part), "");
  EXPECT_EQ(buffer.append("y"), part + "y");
}

TEST(LineMerger, ClosesALineThatAnotherSourceLeftOpen) {
  stdio::LineMerger merger;
  EXPECT_EQ(merger.merge(0, "", "prompt: "), "prompt: ");
  EXPECT_EQ(merger.merge(0, "", "more"), "more");
  EXPECT_EQ(merger.merge(1, "", "other\n"), "\nother\n");
}

TEST(LineMerger, PutsThePrefixBeforeEachLineOnce) {
  stdio::LineMerger merger;
  EXPECT_EQ(merger.merge(0, "[0] ", "a\nb"), "[0] a\n[0] b");
  EXPECT_EQ(merger.merge(0, "[0] ", "c\n"), "c\n");
}

TEST(Stdio, HalfLinesOfRanksNeverMix) {
  const Outcome job = run_job({"-n", "4", helper("noisy_rank"), "500", "80"});
  ASSERT_EQ(job.status, 0) << job.err;
  std::map<std::string, int> next;  // per rank and stream: the line that must come next
  for (const auto& [text, first] : {std::pair{job.out, 0}, std::pair{job.err, 1}}) {
    const auto lines = lines_of(text);
    EXPECT_EQ(lines.size(), 4U * 250U);
    for (const std::string& line : lines) {
      ASSERT_EQ(line.size(), 79U) << line;
      const std::string rank = line.substr(0, 6);
      auto [place, is_new] = next.emplace(fmt::format("{}/{}", rank, first), first);
      ASSERT_THAT(line, StartsWith(fmt::format("{} line {} ", rank, place->second)));
      place->second += 2;
    }
  }
}

TEST(Stdio, TwentyMegabytesArriveWithoutLoss) {
  const Outcome job = run_job({"-n", "4", helper("noisy_rank"), "10000", "1024"});
  ASSERT_EQ(job.status, 0) << job.err;
  EXPECT_EQ(job.out.size(), 20'480'000U);
  EXPECT_EQ(job.err.size(), 20'480'000U);
}

TEST(Stdio, OutputThatNobodyReadsStopsTheRanksAndNotTheLauncher) {
  LaunchedJob job{{"-n", "2", helper("noisy_rank"), "20000", "1024"}};
  ASSERT_TRUE(job.wait_for_output("rank"));
  // With the pipes full the ranks wait; the launcher still hears signals.
  ::kill(job.pid(), SIGTERM);
  const Outcome outcome = job.wait();
  EXPECT_EQ(outcome.status, 128 + SIGTERM);
  EXPECT_LT(outcome.out.size(), 40'000'000U);
  EXPECT_EQ(job.leftovers(), "");
}

TEST(Stdio, LinesCarryRankAndStreamWhenTagged) {
  const Outcome job = run_job({"-n", "1", "--tag-output", "sh", "-c", "echo a; echo b >&2; printf c"});
  EXPECT_EQ(job.out, "[1,0]<stdout>: a\n[1,0]<stdout>: c");
  EXPECT_EQ(job.err, "[1,0]<stderr>: b\n");
}

TEST(Stdio, InputGoesToRankZeroOnly) {
  const std::string input(300'000, 'i');
  const Outcome job = run_job({"-n", "3", "sh", "-c", "wc -c"}, input);
  ASSERT_EQ(job.status, 0) << job.err;
  auto lines = lines_of(job.out);
  std::sort(lines.begin(), lines.end());
  EXPECT_THAT(lines, ElementsAre("0", "0", "300000"));
}

TEST(Stdio, OutputOfOneRankPassesThroughAsItIs) {
  const Outcome job = run_job({"-n", "1", "sh", "-c", "printf 'no newline \\001\\377'"});
  EXPECT_EQ(job.out, "no newline \001\377");
}

TEST(Stdio, ReaderThatGoesAwayEndsTheJobAsInAPipeline) {
  // The shell's own pipeline, with opalrun in front of a reader that leaves at once.
  const std::string command =
      fmt::format("{} -n 2 {} 100000 1024 2>/dev/null | head -c 10 >/dev/null", OPALRUN_PATH, helper("noisy_rank"));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(std::system(command.c_str()), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds{30});
}

}  // namespace
}  // namespace runtime::test
