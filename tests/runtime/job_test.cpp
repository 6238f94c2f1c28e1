// SPDX-License-Identifier: Apache-2.0
// Which failure a job blames: reports of its hosts come in every order, the cause is named all the same.
#include "runtime/launch/job.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>

namespace runtime::launch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// A host whose ranks are names only; what becomes of them is told by the test.
class FakeHost final : public RankHost {
 public:
  FakeHost(std::string name, std::vector<std::uint32_t> ranks) : name_(std::move(name)), ranks_(std::move(ranks)) {}
  [[nodiscard]] const std::string& name() const noexcept override { return name_; }
  [[nodiscard]] const std::vector<std::uint32_t>& ranks() const noexcept override { return ranks_; }
  void start() override {
    for (const std::uint32_t rank : ranks_) observer(Started{rank, static_cast<pid_t>(1000 + rank)});
    on_start();
  }
  void signal(int, bool) override {}
  void kill_all() override { observer(Emptied{}); }
  void announce_death(unsigned) override {}
  [[nodiscard]] std::size_t starting() const noexcept override { return 0; }
  [[nodiscard]] std::vector<std::uint32_t> dying_ranks() const override { return dying; }
  void inquire() override {
    if (!remote) return;
    owes = true;
    on_inquired();
  }
  [[nodiscard]] bool owes_answer() const override { return owes; }

  void end(unsigned rank, int wait_status, bool left = false) {
    std::erase(dying, rank);
    observer(Exited{rank, wait_status, left});
  }
  void answer() {
    owes = false;
    observer(Answered{});
  }

  RankHostObserver observer;
  std::vector<std::uint32_t> dying;
  bool remote = false;
  bool owes = false;
  std::function<void()> on_start = [] {};
  std::function<void()> on_inquired = [] {};

 private:
  const std::string name_;
  const std::vector<std::uint32_t> ranks_;
};

struct Verdict {
  int status;
  std::string text;
};

constexpr int exited_with(int status) { return status << 8; }

/// A job of ranks 0 and 1 on this host and 2 and 3 on another one.
class BlameTest : public ::testing::Test {
 protected:
  BlameTest() {
    there.remote = true;
    there.on_inquired = [this] { loop->post([this] { there.answer(); }); };
  }

  /// Runs the job; `script` is what happens when all ranks run.
  Verdict run(const std::function<void(Job& job)>& script) {
    ::testing::internal::CaptureStderr();
    int status = 0;
    {
      Options options;
      options.grace = std::chrono::milliseconds{10};
      Job job{*loop, "opalrun", 4, options, [] {}};
      std::size_t index = 0;
      for (FakeHost* host : {&here, &there}) {
        host->observer = job.observer_of(index++);
        job.add(*host);
      }
      there.on_start = [&] { loop->post([&] { script(job); }); };
      status = job.run();
    }
    return {status, ::testing::internal::GetCapturedStderr()};
  }

  std::unique_ptr<event::Loop> loop = std::move(*event::Loop::create());
  FakeHost here{"h0", {0, 1}};
  FakeHost there{"h1", {2, 3}};
};

TEST_F(BlameTest, ARankThatDiesHereIsNamedThoughAnotherAbortsBeforeItsEndIsReported) {
  const Verdict verdict = run([&](Job&) {
    here.dying = {1};
    here.observer(Abort{0, 58, "a peer has failed"});
    loop->post([&] { here.end(0, exited_with(58)); });
    loop->post([&] { loop->post([&] { here.end(1, SIGSEGV); }); });
  });
  EXPECT_EQ(verdict.status, 128 + SIGSEGV);
  EXPECT_THAT(verdict.text, AllOf(HasSubstr("rank 1 (pid 1001"), HasSubstr("SIGSEGV"), Not(HasSubstr("aborted"))));
}

TEST_F(BlameTest, ARankThatExitsHereIsNamedThoughAnotherAbortsBeforeItsEndIsReported) {
  for (const int wait_status : {exited_with(3), 0}) {
    const Verdict verdict = run([&](Job&) {
      here.dying = {1, 0};
      here.observer(Abort{0, 58, "a peer has failed"});
      here.end(0, exited_with(58));
      here.end(1, wait_status);
    });
    EXPECT_EQ(verdict.status, wait_status == 0 ? 1 : 3);
    EXPECT_THAT(verdict.text, HasSubstr("rank 1 (pid 1001"));
  }
}

TEST_F(BlameTest, ARankThatDiedOnAnotherHostIsNamedThoughItsEndIsReportedLater) {
  there.on_inquired = [&] {
    loop->post([&] { there.end(2, SIGKILL); });
    loop->post([&] { there.answer(); });
  };
  const Verdict verdict = run([&](Job&) {
    here.observer(Abort{0, 58, "a peer has failed"});
    here.end(0, exited_with(58));
  });
  EXPECT_EQ(verdict.status, 128 + SIGKILL);
  EXPECT_THAT(verdict.text, AllOf(HasSubstr("rank 2"), HasSubstr("h1"), HasSubstr("SIGKILL")));
}

TEST_F(BlameTest, TheCauseIsNamedWhenAllRanksHaveEndedBeforeAnotherHostAnswers) {
  there.on_inquired = [] {};
  const Verdict verdict = run([&](Job&) {
    here.end(0, 0);
    here.end(1, 0);
    there.end(3, 0);
    there.end(2, SIGKILL);
  });
  EXPECT_EQ(verdict.status, 128 + SIGKILL);
  EXPECT_THAT(verdict.text, AllOf(HasSubstr("rank 2"), HasSubstr("h1"), HasSubstr("SIGKILL")));
}

TEST_F(BlameTest, AHostThatIsLostIsNamedThoughARankElsewhereAbortsFirst) {
  there.on_inquired = [] {};  // it is gone
  const Verdict verdict = run([&](Job& job) {
    here.observer(Abort{0, 19, "a peer has failed"});
    here.end(0, exited_with(19));
    loop->post([&] {
      there.owes = false;
      job.on_lost(1, 1, "the daemon of host h1 is lost");
    });
  });
  EXPECT_EQ(verdict.status, 1);
  EXPECT_THAT(verdict.text, AllOf(HasSubstr("host h1 is lost"), Not(HasSubstr("aborted"))));
}

TEST_F(BlameTest, AHostThatDoesNotAnswerIsNamedBesideTheAbort) {
  there.on_inquired = [] {};
  const Verdict verdict = run([&](Job&) { here.observer(Abort{0, 19, "a peer has failed"}); });
  EXPECT_EQ(verdict.status, 19);
  EXPECT_THAT(verdict.text, AllOf(HasSubstr("rank 0"), HasSubstr("host h1 does not answer")));
}

TEST_F(BlameTest, AnAbortThatFollowsFromNothingIsTheCauseThoughOthersAbortAfterIt) {
  const Verdict verdict = run([&](Job&) {
    here.dying = {0};  // it exits after its call
    here.observer(Abort{0, 42, "no convergence"});
    there.observer(Abort{2, 58, "a peer has failed"});
    there.end(2, exited_with(58));
    here.end(0, exited_with(42));
  });
  EXPECT_EQ(verdict.status, 42);
  EXPECT_THAT(verdict.text, AllOf(HasSubstr("rank 0"), HasSubstr("no convergence")));
}

TEST_F(BlameTest, AnExitStatusWaitsForASignalOnAnotherHost) {
  there.on_inquired = [&] {
    loop->post([&] { there.end(3, SIGSEGV); });
    loop->post([&] { there.answer(); });
  };
  const Verdict verdict = run([&](Job&) { here.end(0, exited_with(1)); });
  EXPECT_EQ(verdict.status, 128 + SIGSEGV);
  EXPECT_THAT(verdict.text, HasSubstr("rank 3"));
}

}  // namespace
}  // namespace runtime::launch
