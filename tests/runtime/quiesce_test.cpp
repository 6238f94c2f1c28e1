// SPDX-License-Identifier: Apache-2.0
// opalrun --quiesce and --resume: of MPI jobs under traffic, and of everything that does not take part.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <thread>

#include "runtime/launch/quiescence.hpp"
#include "tests/runtime/host_jobs.hpp"

namespace runtime::test {
namespace {

namespace fs = std::filesystem;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

/// Runs an opalrun that commands the launcher `pid`.
Outcome command(const char* verb, pid_t pid, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments{verb, std::to_string(pid)};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return LaunchedJob{arguments}.wait();
}

/// The ranks' processes, as seen from here.
std::vector<pid_t> ranks_of(const LaunchedJob& job) {
  std::vector<pid_t> ranks = job.processes();
  std::erase_if(ranks, [](pid_t pid) {
    std::string command;
    std::getline(std::ifstream{fmt::format("/proc/{}/comm", pid)}, command);
    return command != "quiesce_rank";
  });
  EXPECT_FALSE(ranks.empty());
  return ranks;
}

/// How often threads of the process have gone to sleep.
long sleeps_of(pid_t pid) {
  constexpr std::string_view kName = "voluntary_ctxt_switches:";
  long sleeps = 0;
  for (const fs::directory_entry& thread : fs::directory_iterator{fmt::format("/proc/{}/task", pid)}) {
    std::ifstream file{thread.path() / "status"};
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with(kName)) sleeps += std::stol(line.substr(kName.size()));
    }
  }
  return sleeps;
}

/// Bytes that lie in the process's TCP sockets, not yet sent or not yet read.
std::uint64_t bytes_under_way(pid_t pid) {
  std::set<std::string> sockets;
  for (const fs::directory_entry& fd : fs::directory_iterator{fmt::format("/proc/{}/fd", pid)}) {
    std::error_code ignored;
    sockets.insert(fs::read_symlink(fd.path(), ignored).string());
  }
  std::uint64_t bytes = 0;
  for (const char* const table : {"tcp", "tcp6"}) {
    std::ifstream file{fmt::format("/proc/{}/net/{}", pid, table)};
    for (std::string line; std::getline(file, line);) {
      std::istringstream words{line};
      const std::vector<std::string> fields{std::istream_iterator<std::string>{words}, {}};
      if (fields.size() < 10 || fields[3] != "01" || !sockets.contains(fmt::format("socket:[{}]", fields[9]))) continue;
      bytes += std::stoull(fields[4].substr(0, 8), nullptr, 16) + std::stoull(fields[4].substr(9), nullptr, 16);
    }
  }
  return bytes;
}

/// The directory that the ranks of a job share with its test.
class Notes {
 public:
  Notes() : path_(fmt::format("{}opal-quiesce-{}", ::testing::TempDir(), ::getpid())) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~Notes() { fs::remove_all(path_); }
  Notes(const Notes&) = delete;
  Notes& operator=(const Notes&) = delete;
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  void leave(const char* name) const { std::ofstream{path_ + '/' + name}; }
  [[nodiscard]] std::uint64_t turns(unsigned rank) const {
    std::uint64_t turns = 0;
    std::ifstream file{fmt::format("{}/turns.{}", path_, rank), std::ios::binary};
    file.read(reinterpret_cast<char*>(&turns), sizeof turns);
    return turns;
  }

 private:
  const std::string path_;
};

/// Lets the ranks end; all of them must end in order.
void stop(LaunchedJob& job, const Notes& notes) {
  notes.leave("stop");
  const Outcome ended = job.wait();
  EXPECT_EQ(ended.status, 0) << ended.err;
}

/// Waits until all ranks are past MPI_Init; their process ids, by rank, as they see them themselves.
std::vector<pid_t> pids_of(LaunchedJob& job, unsigned ranks) {
  std::vector<pid_t> pids(ranks);
  EXPECT_TRUE(eventually([&] { return lines_of(job.output()).size() >= ranks; }, std::chrono::seconds{60}));
  for (const std::string& line : lines_of(job.output())) {
    unsigned rank = 0;
    pid_t pid = 0;
    if (std::sscanf(line.c_str(), "rank %u has pid %d", &rank, &pid) == 2) pids.at(rank) = pid;
  }
  return pids;
}

fs::path socket_of(const LaunchedJob& job) {
  for (const fs::directory_entry& session : fs::directory_iterator{job.directory()}) {
    if (fs::exists(session.path() / "control")) return session.path() / "control";
  }
  ADD_FAILURE() << "no socket";
  return {};
}

/// A client of the job's socket that has sent `text`.
opal::Fd client_that_says(const fs::path& socket, std::string_view text) {
  opal::Fd fd{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  EXPECT_LT(socket.string().size(), sizeof address.sun_path);
  socket.string().copy(address.sun_path, sizeof address.sun_path - 1);
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  (void)::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
  return fd;
}

/// All that comes until the launcher closes.
std::string answer_to(const opal::Fd& client) {
  std::string answer;
  char piece[256];
  for (ssize_t size = 0; (size = ::read(client.get(), piece, sizeof piece)) > 0;) {
    answer.append(piece, static_cast<std::size_t>(size));
  }
  return answer;
}

/// A client of the job's socket whose request is under way: ranks do not answer it.
opal::Fd client_that_waits(const LaunchedJob& job) {
  const fs::path socket = socket_of(job);
  opal::Fd fd = client_that_says(socket, "quiesce 0\n");
  EXPECT_EQ(answer_to(client_that_says(socket, "quiesce 0\n")), "no the job is being quiesced for another command\n");
  return fd;
}

/// Quiesces and resumes the job while its ranks exchange data; then ends it.
void quiesce_during_traffic(LaunchedJob& job, const Notes& notes, unsigned ranks) {
  (void)pids_of(job, ranks);
  for (int time = 0; time < 4; ++time) {
    std::vector<std::uint64_t> before;
    for (unsigned rank = 0; rank < ranks; ++rank) before.push_back(notes.turns(rank));
    for (unsigned rank = 0; rank < ranks; ++rank) {
      EXPECT_TRUE(eventually([&] { return notes.turns(rank) > before[rank]; })) << "rank " << rank << " stands";
    }
    const Outcome quiesced = command("--quiesce", job.pid(), {"--timeout", "60"});
    ASSERT_EQ(quiesced.status, 0) << quiesced.err;
    for (unsigned rank = 0; rank < ranks; ++rank) before[rank] = notes.turns(rank);
    // What libpmix is told may still be on its way.
    for (const pid_t pid : ranks_of(job)) EXPECT_TRUE(eventually([&] { return bytes_under_way(pid) == 0; }));
    EXPECT_THAT(command("--quiesce", job.pid()).err, HasSubstr("is quiesced already"));
    for (unsigned rank = 0; rank < ranks; ++rank) EXPECT_EQ(notes.turns(rank), before[rank]) << rank;
    const Outcome resumed = command("--resume", job.pid());
    ASSERT_EQ(resumed.status, 0) << resumed.err;
  }
  notes.leave("stop");
  const Outcome outcome = job.wait();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(job.leftovers(), "");
}

void quiesce_over(const char* transport, const char* mode = "one") {
  const Notes notes;
  LaunchedJob job{
      {"-n", "3", "--set", fmt::format("am_transports={}", transport), helper("quiesce_rank"), notes.path(), mode}};
  quiesce_during_traffic(job, notes, 3);
}

TEST(Quiesce, AJobOverSharedMemoryStopsDuringTrafficAndGoesOnWithRightData) { quiesce_over("sm"); }

TEST(Quiesce, AJobOverTcpStopsDuringTrafficAndGoesOnWithRightData) { quiesce_over("tcp"); }

TEST(Quiesce, AJobWithThreadsInMpiStopsDuringTrafficAndGoesOnWithRightData) {
  quiesce_over("sm", "threads");
  quiesce_over("tcp", "threads");
}

class QuiesceHosts : public HostJobs {
 protected:
  QuiesceHosts() : HostJobs(2) {}
};

TEST_F(QuiesceHosts, AJobOnTwoHostsStopsDuringTrafficAndGoesOnWithRightData) {
  const Notes notes;
  const auto job = start({"--host", "h1:2,h2:2", helper("quiesce_rank"), notes.path()});
  quiesce_during_traffic(*job, notes, 4);
}

/// The thread that serves accesses to windows makes progress meanwhile.
TEST_F(QuiesceHosts, ARankThatComputesIsNotQuietBecauseAThreadOfTheLibraryMakesProgress) {
  const Notes notes;
  const auto job =
      start({"--host", "h1:1,h2:1", "--set", "mpi_rma_helper=on", helper("quiesce_rank"), notes.path(), "compute"});
  (void)pids_of(*job, 2);
  const Outcome outcome = command("--quiesce", job->pid(), {"--timeout", "0.5"});
  EXPECT_THAT(outcome.err, ContainsRegex("no answer of ranks? (0-)?1 within 0.5 s"));
  notes.leave("go");
  notes.leave("stop");
  EXPECT_EQ(job->wait().status, 0);
}

TEST(Quiesce, RanksOfAQuietJobSleep) {
  const Notes notes;
  LaunchedJob job{{"-n", "2", helper("quiesce_rank"), notes.path(), "threads"}};
  const std::vector<pid_t> pids = pids_of(job, 2);
  ASSERT_EQ(command("--quiesce", job.pid()).status, 0);
  // A rank that has answered is about to sleep; from then on nothing wakes it.  Many looks: a rank that polls may not
  // get a core for a while.
  for (const pid_t pid : pids) {
    long before = -1;
    int unchanged = 0;
    EXPECT_TRUE(eventually([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds{50});
      const long now = sleeps_of(pid);
      unchanged = std::exchange(before, now) == now ? unchanged + 1 : 0;
      return unchanged == 10;
    })) << "it does not sleep";
  }
  EXPECT_EQ(command("--resume", job.pid()).status, 0);
  stop(job, notes);
}

TEST(Quiesce, ARankThatComputesIsNamedAfterTheTimeoutAndTheJobGoesOn) {
  const Notes notes;
  LaunchedJob job{{"-n", "2", helper("quiesce_rank"), notes.path(), "compute"}};
  (void)pids_of(job, 2);
  const Outcome outcome = command("--quiesce", job.pid(), {"--timeout", "0.5"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, ContainsRegex("opalrun: no answer of ranks? (0-)?1 within 0.5 s: .*; the job goes on\n"));
  notes.leave("go");
  EXPECT_TRUE(eventually([&] { return notes.turns(1) > 3; }));
  EXPECT_THAT(command("--resume", job.pid()).err, HasSubstr("the job is not quiesced"));
  stop(job, notes);
}

/// As one does that is killed.
TEST(Quiesce, ACommandThatGoesTakesItsRequestBack) {
  const Notes notes;
  LaunchedJob job{{"-n", "2", helper("quiesce_rank"), notes.path(), "compute"}};
  (void)pids_of(job, 2);
  client_that_waits(job).reset();
  notes.leave("go");
  EXPECT_TRUE(eventually([&] { return notes.turns(1) > 3; }));
  EXPECT_EQ(command("--quiesce", job.pid()).status, 0);
  EXPECT_EQ(command("--resume", job.pid()).status, 0);
  stop(job, notes);
}

TEST(Quiesce, ARankThatIsKilledWhileTheJobIsQuietEndsIt) {
  const Notes notes;
  LaunchedJob job{{"-n", "2", helper("quiesce_rank"), notes.path()}};
  const std::vector<pid_t> pids = pids_of(job, 2);
  ASSERT_EQ(command("--quiesce", job.pid()).status, 0);
  ::kill(pids[1], SIGKILL);
  const Outcome outcome = job.wait();
  EXPECT_EQ(outcome.status, 128 + SIGKILL);
  EXPECT_THAT(outcome.err, HasSubstr(fmt::format("rank 1 (pid {}", pids[1])));
  EXPECT_EQ(job.leftovers(), "");
}

TEST(Quiesce, ARankThatIsKilledBeforeAContinuousJobIsQuietEndsTheRequestAndIsNamed) {
  const Notes notes;
  LaunchedJob job{{"-n", "2", "--continuous", helper("quiesce_rank"), notes.path(), "compute"}};
  const std::vector<pid_t> pids = pids_of(job, 2);
  const opal::Fd waiting = client_that_waits(job);
  ::kill(pids[1], SIGKILL);
  EXPECT_EQ(answer_to(waiting), "no rank 1 has ended\n");
  EXPECT_NE(job.wait().status, 0);  // the other rank's MPI calls fail then
}

TEST(Quiesce, TheOthersOfAContinuousJobGoOnAfterARankIsKilledWhileItIsQuiet) {
  const Notes notes;
  LaunchedJob job{{"-n", "2", "--continuous", helper("quiesce_rank"), notes.path()}};
  const std::vector<pid_t> pids = pids_of(job, 2);
  ASSERT_EQ(command("--quiesce", job.pid()).status, 0);
  ::kill(pids[1], SIGKILL);
  EXPECT_EQ(command("--resume", job.pid()).status, 0);
  const Outcome outcome = job.wait();  // the other rank's MPI calls fail then
  EXPECT_THAT(outcome.err, HasSubstr(fmt::format("rank 1 (pid {}", pids[1])));
  EXPECT_THAT(outcome.err, HasSubstr("1 rank goes on"));
  EXPECT_EQ(job.leftovers(), "");
}

TEST(Quiesce, RanksThatAreOutsideOfMpiAreNamed) {
  LaunchedJob job{{"-n", "3", "sh", "-c", "echo up; sleep 300"}};
  EXPECT_TRUE(eventually([&] { return lines_of(job.output()).size() == 3; }));
  const Outcome outcome = command("--quiesce", job.pid());
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.err, "opalrun: ranks 0-2 cannot be quiesced: only between MPI_Init and MPI_Finalize\n");
  const Outcome resumed = command("--resume", job.pid());
  EXPECT_EQ(resumed.status, 1);
  EXPECT_EQ(resumed.err, "opalrun: the job is not quiesced\n");
}

TEST(Quiesce, AProcessThatIsNoLauncherIsSaidToBeNone) {
  for (const pid_t pid : {::getpid(), 1, 0x3fffffff}) {
    const Outcome outcome = command("--quiesce", pid);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(outcome.err, fmt::format("opalrun: process {} is no opalrun of this user with a running job\n", pid));
  }
}

// --- Ranks without MPI

TEST(Quiesce, RanksOfTheirOwnProtocolAreToldOfEachStep) {
  LaunchedJob job{{"-n", "2", helper("client_rank"), "checkpoint", "none"}};
  EXPECT_TRUE(eventually([&] { return lines_of(job.output()).size() == 2; }));
  EXPECT_EQ(command("--quiesce", job.pid()).status, 0);
  EXPECT_EQ(command("--resume", job.pid()).status, 0);
  const Outcome outcome = job.wait();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(lines_of(outcome.out),
              UnorderedElementsAre("ready", "ready", "0 of round 1", "0 of round 1", "0 of round 1", "0 of round 1",
                                   "1 of round 1", "1 of round 1", "2 of round 1", "2 of round 1"));
}

TEST(Quiesce, ARankThatCannotDoAStepIsNamedWithTheReason) {
  LaunchedJob job{{"-n", "2", helper("client_rank"), "checkpoint", "1"}};
  EXPECT_TRUE(eventually([&] { return lines_of(job.output()).size() == 2; }));
  EXPECT_EQ(command("--quiesce", job.pid()).err, "opalrun: rank 1: the disk is full; the job goes on\n");
  EXPECT_EQ(job.wait().status, 0);  // both have been told to resume
}

// --- The socket

TEST(Quiesce, ClientsThatSendGarbageOrNothingHoldNobodyUp) {
  const Notes notes;
  LaunchedJob job{{"-n", "2", helper("quiesce_rank"), notes.path()}};
  (void)pids_of(job, 2);
  const fs::path socket = socket_of(job);
  EXPECT_EQ(fs::status(socket).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  for (const char* const garbage : {"\n", "quiesce\n", "quiesce \n", "quiesce -1\n", "quiesce 1x\n", "resume now\n",
                                    "quiesce 99999999999999999999\n", "quiesce 9999999999999999\n", "Resume\n"}) {
    EXPECT_EQ(answer_to(client_that_says(socket, garbage)), "no no such request\n") << garbage;
  }
  EXPECT_EQ(answer_to(client_that_says(socket, std::string(1 << 20, 'x'))), "");  // no line that long
  EXPECT_EQ(answer_to(client_that_says(socket, "resume\nresume\n")), "no the job is not quiesced\n");
  client_that_says(socket, "quiesce 0");  // goes before its line ends
  std::vector<opal::Fd> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(client_that_says(socket, ""));
  EXPECT_EQ(command("--quiesce", job.pid()).status, 0);
  EXPECT_EQ(command("--resume", job.pid()).status, 0);
  stop(job, notes);
}

TEST(Quiesce, TheSocketServesItsOwnUserOnly) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: becomes another user";
  const Notes notes;
  LaunchedJob job{{"-n", "1", helper("quiesce_rank"), notes.path()}};
  (void)pids_of(job, 1);
  const fs::path socket = socket_of(job);
  const auto answer_as_nobody = [&] {
    const pid_t child = ::fork();
    if (child == 0) {
      if (::setresuid(65534, 65534, 65534) != 0) ::_exit(3);
      const opal::Fd fd{::socket(AF_UNIX, SOCK_STREAM, 0)};
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      socket.string().copy(address.sun_path, sizeof address.sun_path - 1);
      if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) ::_exit(2);
      (void)::send(fd.get(), "resume\n", 7, MSG_NOSIGNAL);
      char byte = 0;
      ::_exit(::read(fd.get(), &byte, 1) <= 0 ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  EXPECT_EQ(answer_as_nobody(), 2) << "the directory lets it through";
  for (fs::path path = socket; path != path.root_path(); path = path.parent_path()) {
    if (path.string().starts_with(job.directory().string())) fs::permissions(path, fs::perms::all);
  }
  EXPECT_EQ(answer_as_nobody(), 0);
  stop(job, notes);
}

// --- The steps

/// A Quiescence of three ranks, of which none is there.
class Steps : public ::testing::Test {
 protected:
  void join_all() {
    for (unsigned rank = 0; rank < 3; ++rank) quiescence.on_answer(rank, "join");
  }
  void answer_all(const std::string& text) {
    for (unsigned rank = 0; rank < 3; ++rank) quiescence.on_answer(rank, text);
  }
  void quiesce() {
    quiescence.quiesce({}, [this](const std::string& problem) { answers.push_back(problem); });
  }
  std::unique_ptr<event::Loop> loop = *event::Loop::create();
  std::vector<std::string> requests;
  std::vector<std::string> answers;
  launch::Quiescence quiescence{*loop, 3, [this](const std::string& request) { requests.push_back(request); }};
};

TEST_F(Steps, FollowWhenAllRanksHaveAnswered) {
  join_all();
  quiesce();
  EXPECT_THAT(requests, ElementsAre("quiesce 1"));
  quiescence.on_answer(0, "quiesce 1");
  quiescence.on_answer(0, "quiesce 1");
  quiescence.on_answer(1, "quiesce 1");
  EXPECT_THAT(requests, ElementsAre("quiesce 1"));
  quiescence.on_answer(2, "quiesce 1");
  EXPECT_THAT(requests, ElementsAre("quiesce 1", "quiesce 1"));
  answer_all("quiesce 1");
  EXPECT_THAT(answers, ElementsAre());
  answer_all("checkpoint 1");
  EXPECT_THAT(answers, ElementsAre(""));
  EXPECT_EQ(quiescence.resume(), "");
  EXPECT_THAT(requests, ElementsAre("quiesce 1", "quiesce 1", "checkpoint 1", "resume 1"));
  quiesce();
  answer_all("quiesce 1");  // late
  EXPECT_EQ(requests.back(), "quiesce 2");
  EXPECT_EQ(requests.size(), 5U);
}

TEST_F(Steps, EndWhenARankCannotDoOne) {
  join_all();
  quiesce();
  quiescence.on_answer(1, "quiesce 1 a registration is in use");
  EXPECT_THAT(answers, ElementsAre("rank 1: a registration is in use; the job goes on"));
  EXPECT_THAT(requests, ElementsAre("quiesce 1", "resume 1"));
  EXPECT_EQ(quiescence.resume(), "the job is not quiesced");
}

TEST_F(Steps, DoNotWaitForARankThatHasLeftButEndWithOneThatHasNot) {
  join_all();
  quiesce();
  quiescence.on_answer(0, "quiesce 1");
  quiescence.on_answer(1, "quiesce 1");
  quiescence.on_answer(2, "leave");
  EXPECT_THAT(requests, ElementsAre("quiesce 1", "quiesce 1"));
  quiescence.on_ended(2);
  EXPECT_THAT(answers, ElementsAre());
  quiescence.on_ended(1);
  EXPECT_THAT(answers, ElementsAre("rank 1 has ended"));
}

TEST_F(Steps, EndForTheFirstCommandWhenAnotherResumes) {
  join_all();
  quiesce();
  EXPECT_EQ(quiescence.resume(), "");
  EXPECT_THAT(answers, ElementsAre("another command has resumed the job"));
  EXPECT_EQ(requests.back(), "resume 1");
}

TEST_F(Steps, DoNotBeginWithoutAllRanks) {
  quiescence.on_answer(1, "join");
  quiesce();
  EXPECT_THAT(answers, ElementsAre("ranks 0,2 cannot be quiesced: only between MPI_Init and MPI_Finalize"));
  EXPECT_THAT(requests, ElementsAre());
  for (unsigned rank = 0; rank < 3; ++rank) quiescence.on_answer(rank, "leave");
  quiesce();
  EXPECT_EQ(answers.back(), "no rank of the job is between MPI_Init and MPI_Finalize");
}

}  // namespace
}  // namespace runtime::test
