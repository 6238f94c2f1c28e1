// SPDX-License-Identifier: Apache-2.0
// What ranks print arrives whole and complete; what is typed reaches rank 0.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "runtime/stdio/line_merger.hpp"
#include "tests/harness/program.hpp"
#include "tests/runtime/flood.hpp"
#include "tests/runtime/launched_job.hpp"

namespace runtime::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::SizeIs;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

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

TEST(Stdio, LinesCarryTheTimeBeforeTheTag) {
  const Outcome job = run_job({"-n", "2", "--timestamp-output", "--tag-output", "sh", "-c", "echo a; echo b"});
  ASSERT_THAT(lines_of(job.out), SizeIs(4)) << job.err;
  for (const std::string& line : lines_of(job.out)) {
    EXPECT_THAT(line, MatchesRegex("[0-9]+-[0-9]+-[0-9]+T[0-9]+:[0-9]+:[0-9]+[.][0-9]+[-+][0-9]+ "
                                   "[[]1,[01][]]<stdout>: [ab]"));
  }
}

TEST(Stdio, StderrIsMergedIntoStdoutWhenAsked) {
  const Outcome job = run_job({"-n", "2", "--merge-stderr-to-stdout", "sh", "-c", "echo out; echo err >&2"});
  EXPECT_THAT(lines_of(job.out), UnorderedElementsAre("out", "out", "err", "err"));
  EXPECT_EQ(job.err, "");
}

std::string text_of(const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}

TEST(Stdio, EveryRankHasFilesOfItsOwnWhenAsked) {
  const opal::test::Scratch scratch;
  const std::string directory = scratch.file("deep/output");
  const Outcome job = run_job({"-n", "11", "--output-filename", directory, "sh", "-c",
                               "echo out $OMPI_COMM_WORLD_RANK; echo err $OMPI_COMM_WORLD_RANK >&2; printf open"});
  EXPECT_EQ(job.status, 0) << job.err;
  EXPECT_EQ(job.out + job.err, "");
  for (int rank = 0; rank < 11; ++rank) {
    const std::string files = fmt::format("{}/rank.{:02}/", directory, rank);
    EXPECT_EQ(text_of(files + "stdout"), fmt::format("out {}\nopen", rank));
    EXPECT_EQ(text_of(files + "stderr"), fmt::format("err {}\n", rank));
  }
  const std::string merged = scratch.file("merged");
  const Outcome both = run_job({"-n", "2", "--output-filename", merged, "--merge-stderr-to-stdout", "--tag-output",
                                "sh", "-c", "echo out; echo err >&2"});
  EXPECT_EQ(both.status, 0) << both.err;
  EXPECT_THAT(lines_of(text_of(merged + "/rank.1/stdout")),
              UnorderedElementsAre("[1,1]<stdout>: out", "[1,1]<stderr>: err"));
  EXPECT_FALSE(std::filesystem::exists(merged + "/rank.1/stderr"));
}

/// /dev/full is a disk without room.
TEST(Stdio, AFullDiskEndsTheJobWithOneMessage) {
  const opal::test::Scratch scratch;
  std::filesystem::create_directories(scratch.file("rank.1"));
  std::filesystem::create_symlink("/dev/full", scratch.file("rank.1/stdout"));
  LaunchedJob job{{"-n", "2", "--grace", "0.5", "--output-filename", scratch.file(""), "sh", "-c",
                   "while echo something; do :; done; sleep 300"}};
  const Outcome outcome = job.wait();
  EXPECT_EQ(outcome.status, 1);
  ASSERT_THAT(lines_of(outcome.err), SizeIs(1)) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("cannot write to "));
  EXPECT_THAT(outcome.err, HasSubstr("rank.1/stdout: No space left on device"));
  EXPECT_EQ(job.leftovers(), "");
}

/// A pipe that is not read stands for the file of a server that does not answer.
TEST(Stdio, AFileThatTakesNothingStopsTheRanksAndNotTheLauncher) {
  const opal::test::Scratch scratch;
  std::filesystem::create_directories(scratch.file("rank.1"));
  const std::string path = scratch.file("rank.1/stdout");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const opal::Fd reader{::open(path.c_str(), O_RDWR | O_CLOEXEC)};
  LaunchedJob job{{"-n", "2", "--output-filename", scratch.file(""), helper("noisy_rank"), "20000", "1024"}};
  ASSERT_TRUE(eventually([&] {
    pollfd full{reader.get(), POLLOUT, 0};
    return ::poll(&full, 1, 0) == 0;
  }));
  ::kill(job.pid(), SIGTERM);
  const Outcome outcome = job.wait();
  EXPECT_EQ(outcome.status, 128 + SIGTERM);
  EXPECT_EQ(job.leftovers(), "");
}

TEST(Stdio, AFileThatCannotBeMadeIsAnError) {
  LaunchedJob job{{"-n", "2", "--grace", "0.5", "--output-filename", "/dev/null/here", "sleep", "300"}};
  const Outcome outcome = job.wait();
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("--output-filename: a rank's file cannot be made"));
  EXPECT_EQ(job.leftovers(), "");
}

TEST(Stdio, MuchOutputArrivesWholeAndInOrderAndNeedsLittleMemory) {
  for (const unsigned ranks : {1U, 2U}) {
    const std::uint64_t lines = kFloodLines / ranks;
    LaunchedJob job{{"-n", std::to_string(ranks), helper("flood_rank"), std::to_string(lines)}};
    expect_flood(job, ranks, lines, 12 << 10);
    EXPECT_EQ(job.leftovers(), "");
  }
}

/// A reader that is slower than the ranks: they wait, and nothing is gathered.
TEST(Stdio, ASlowReaderNeedsLittleMemory) {
  LaunchedJob job{{"-n", "2", helper("flood_rank"), "150000"}};
  expect_flood(job, 2, 150'000, 12 << 10, std::chrono::milliseconds{1});
  EXPECT_EQ(job.leftovers(), "");
}

TEST(Stdio, InputGoesToTheChosenRankOrToAllOrToNone) {
  std::string input;
  for (int i = 0; i < 100'000; ++i) input += fmt::format("line {}\n", i);
  const std::string all = std::to_string(input.size());
  const auto counts = [&](const std::string& target) {
    const Outcome job =
        run_job({"-n", "3", "--stdin", target, "--tag-output", "sh", "-c", "cksum | cut -d' ' -f2"}, input);
    EXPECT_EQ(job.status, 0) << job.err;
    return lines_of(job.out);
  };
  EXPECT_THAT(counts("2"), UnorderedElementsAre("[1,0]<stdout>: 0", "[1,1]<stdout>: 0", "[1,2]<stdout>: " + all));
  EXPECT_THAT(counts("none"), UnorderedElementsAre("[1,0]<stdout>: 0", "[1,1]<stdout>: 0", "[1,2]<stdout>: 0"));
  EXPECT_THAT(counts("all"),
              UnorderedElementsAre("[1,0]<stdout>: " + all, "[1,1]<stdout>: " + all, "[1,2]<stdout>: " + all));
  const Outcome wrong = run_job({"-n", "3", "--stdin", "3", "true"});
  EXPECT_EQ(wrong.status, 1);
  EXPECT_EQ(wrong.err, "opalrun: --stdin 3: the job has 3 ranks only\n");
}

/// More input than is kept for any rank; one rank reads a line, one nothing, one all.
TEST(Stdio, RanksThatReadLittleDoNotHoldTheOthersUpOnceTheyHaveEnded) {
  const std::string input(3'000'000, 'x');
  const Outcome job = run_job({"-n", "3", "--stdin", "all", "sh", "-c",
                               "case $OMPI_COMM_WORLD_RANK in 0) head -c 1 > /dev/null ;; 1) : ;; 2) wc -c ;; esac"},
                              input);
  EXPECT_EQ(job.status, 0) << job.err;
  EXPECT_EQ(job.out, "3000000\n");
}

TEST(Stdio, OutputOfOneRankPassesThroughAsItIs) {
  const Outcome job = run_job({"-n", "1", "sh", "-c", "printf 'no newline \\001\\377'"});
  EXPECT_EQ(job.out, "no newline \001\377");
}

/// A job whose stdout is a full device.
Outcome into_full_device(const std::string& program) {
  Outcome outcome;
  const std::string errors = fmt::format("{}/opal-full.{}", ::testing::TempDir(), ::getpid());
  const int status = std::system(fmt::format("{} -n 2 {} > /dev/full 2> {}", OPALRUN_PATH, program, errors).c_str());
  outcome.status = WEXITSTATUS(status);
  std::ifstream file{errors};
  outcome.err.assign(std::istreambuf_iterator<char>{file}, {});
  std::filesystem::remove(errors);
  return outcome;
}

TEST(Stdio, OutputThatCannotBeWrittenIsAFailureThatIsSaid) {
  for (const std::string& program : {std::string{"sh -c 'echo late'"}, helper("noisy_rank") + " 100000 1024"}) {
    const Outcome job = into_full_device(program);
    EXPECT_EQ(job.status, 1) << program;
    EXPECT_THAT(job.err, HasSubstr("cannot write to stdout: No space left on device")) << program;
  }
}

TEST(Stdio, ReaderThatGoesAwayEndsTheJobAsInAPipeline) {
  // The shell's own pipeline: opalrun is in front of a reader that leaves at once, and its ranks write for hours.
  const std::string command =
      fmt::format("{} -n 2 {} 1000000000 1024 2>/dev/null | head -c 10 >/dev/null", OPALRUN_PATH, helper("noisy_rank"));
  EXPECT_EQ(std::system(command.c_str()), 0);
}

}  // namespace
}  // namespace runtime::test
