// SPDX-License-Identifier: Apache-2.0
// Processes that are no part of the job connect to the port of its PMIx server and say nothing: the job starts and ends
// all the same.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <vector>

#include "opal/core/system/fd.hpp"
#include "tests/runtime/launched_job.hpp"

namespace runtime::test {
namespace {

/// The port in "job-server.0;tcp4://127.0.0.1:12345" of what a rank has printed; 0 when there is none.
unsigned port_in(const std::string& text) {
  const std::string mark = "tcp4://127.0.0.1:";
  const std::size_t place = text.find(mark);
  return place == std::string::npos ? 0 : static_cast<unsigned>(std::atoi(text.c_str() + place + mark.size()));
}

std::vector<opal::Fd> connect_to(unsigned port, int count) {
  std::vector<opal::Fd> connections;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  for (int i = 0; i < count; ++i) {
    opal::Fd fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      connections.push_back(std::move(fd));
    }
  }
  return connections;
}

/// A process of another user that has silent connections as long as this object lives.
class OtherUser {
 public:
  OtherUser(unsigned port, int count) {
    int ends[2];
    int ready[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(ready, O_CLOEXEC), 0);
    opal::Fd end{ends[0]};
    const opal::Fd connected{ready[0]};
    opal::Fd tell{ready[1]};
    keep_.reset(ends[1]);
    pid_ = ::fork();
    if (pid_ == 0) {
      keep_.reset();
      if (::setresuid(65534, 65534, 65534) != 0) ::_exit(1);
      const auto connections = connect_to(port, count);
      tell.reset();
      char c = 0;
      ::_exit(::read(end.get(), &c, 1) == 0 ? 0 : 1);
    }
    tell.reset();
    char c = 0;
    EXPECT_EQ(::read(connected.get(), &c, 1), 0);
  }
  ~OtherUser() {
    keep_.reset();
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
    EXPECT_EQ(status, 0);
  }
  OtherUser(const OtherUser&) = delete;
  OtherUser& operator=(const OtherUser&) = delete;

 private:
  opal::Fd keep_;
  pid_t pid_ = 0;
};

void create(const std::string& path) { std::ofstream{path}.put('\n'); }

/// Ranks that tell the server's port, and go on with `command` when `file` is there.
std::vector<std::string> waiting_ranks(const std::string& file, const std::string& command) {
  return {"-n", "2", "sh", "-c",
          fmt::format("echo $PMIX_SERVER_URI41; until [ -e {} ]; do sleep 0.01; done; exec {}", file, command)};
}

/// A file that does not exist yet.
std::string new_file() {
  static int counter = 0;
  return fmt::format("{}/opal-strangers-{}-{}", ::testing::TempDir(), ::getpid(), ++counter);
}

void start_and_end_with(const std::function<std::shared_ptr<void>(unsigned port)>& disturb,
                        const std::vector<std::string>& prefix = {}) {
  const std::string start = new_file();
  const std::string end = new_file();
  LaunchedJob job{waiting_ranks(start, fmt::format("{} until {}", helper("client_rank"), end)), {}, prefix};
  ASSERT_TRUE(job.wait_for_output("tcp4://"));
  const unsigned port = port_in(job.output());
  ASSERT_NE(port, 0U) << job.output();
  const auto at_start = disturb(port);
  create(start);
  ASSERT_TRUE(job.wait_for_output("up\n")) << "the job has not started";
  const auto at_end = disturb(port);
  create(end);
  const Outcome outcome = job.wait();
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  ::unlink(start.c_str());
  ::unlink(end.c_str());
}

TEST(Strangers, ThatConnectAndSayNothingHoldUpNeitherStartNorEnd) {
  for (const int count : {1, 20}) {
    start_and_end_with([count](unsigned port) {
      auto connections = connect_to(port, count);
      EXPECT_EQ(connections.size(), static_cast<std::size_t>(count));
      return std::make_shared<std::vector<opal::Fd>>(std::move(connections));
    });
  }
}

TEST(Strangers, OfAnotherUserAreRefusedEvenMoreOfThemThanThereAreDescriptors) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: to become another user";
  for (const int count : {1, 600}) {
    start_and_end_with([count](unsigned port) { return std::make_shared<OtherUser>(port, count); },
                       {"prlimit", "--nofile=256:256"});
  }
}

}  // namespace
}  // namespace runtime::test
