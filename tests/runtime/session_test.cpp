// SPDX-License-Identifier: Apache-2.0
// Session directories: whose they are, and which of them are stale.
#include "runtime/host/session.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "opal/core/environment.hpp"
#include "tests/harness/program.hpp"

namespace runtime::launch {
namespace {

namespace fs = std::filesystem;
constexpr uid_t kNobody = 65534;

/// A TMPDIR of the test's own.
class SessionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::setenv("TMPDIR", directory_.path().c_str(), 1), 0);  // NOLINT(concurrency-mt-unsafe)
  }
  void TearDown() override {
    if (before_) {
      (void)::setenv("TMPDIR", before_->c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
    } else {
      (void)::unsetenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe)
    }
  }

  const std::optional<std::string> before_ = opal::environment("TMPDIR");
  const opal::test::Scratch directory_;
};

/// The directory of a session whose owner on the host `name` has ended; empty where no host name can be set.
std::string stale_session_of_host(const std::string& name) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWUTS) != 0 || ::sethostname(name.data(), name.size()) != 0) ::_exit(0);
    Session session = Session::plan();
    const std::string& directory = session.directory();
    if (!session.create()) ::_exit(1);
    ::_exit(::write(ends[1], directory.data(), directory.size()) == static_cast<ssize_t>(directory.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::string directory(4096, '\0');
  const ssize_t size = ::read(ends[0], directory.data(), directory.size());
  ::close(ends[0]);
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  directory.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return directory;
}

/// They may be on a file system that hosts share, with locks that hold on one host only.
TEST_F(SessionTest, TheSweepTakesStaleSessionsOfThisHostAndLeavesThoseOfOthers) {
  const std::string own = opal::host_name();
  const std::string here = stale_session_of_host(own);
  if (here.empty()) GTEST_SKIP() << "needs root: sets the name of a host";
  std::vector<std::string> elsewhere;
  for (const std::string& host : {own + "-2", own + ".b", "a-" + own, std::string(64, 'x')}) {
    elsewhere.push_back(stale_session_of_host(host));
  }
  sweep_stale_sessions();
  EXPECT_FALSE(fs::exists(here));
  for (const std::string& directory : elsewhere) EXPECT_TRUE(fs::exists(directory)) << directory;
}

TEST_F(SessionTest, TheSweepLeavesALivingSession) {
  Session session = Session::plan();
  ASSERT_TRUE(session.create());
  sweep_stale_sessions();
  EXPECT_TRUE(fs::exists(session.directory()));
}

/// In the TMPDIR that this process was started with, which is where others look for its session.
TEST(FindSession, PassesOverWhatIsNoDirectoryOfThisUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: gives a directory to another user";
  const Session foreign = Session::plan();
  ASSERT_EQ(::mkdir(foreign.directory().c_str(), 0755), 0);
  ASSERT_EQ(::chown(foreign.directory().c_str(), kNobody, kNobody), 0);
  const Session link = Session::plan();
  ASSERT_EQ(::symlink("/", link.directory().c_str()), 0);
  EXPECT_EQ(find_session(::getpid()), "");
  {
    Session own = Session::plan();
    ASSERT_TRUE(own.create());
    EXPECT_EQ(find_session(::getpid()), own.directory());
  }
  EXPECT_EQ(::rmdir(foreign.directory().c_str()), 0);
  EXPECT_EQ(::unlink(link.directory().c_str()), 0);
}

}  // namespace
}  // namespace runtime::launch
