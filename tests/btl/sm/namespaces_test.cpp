// SPDX-License-Identifier: Apache-2.0
// Peers in other namespaces, as containers make them: users and processes have other numbers there, and /dev/shm may be
// as small as it likes.  Where the kernel or a sandbox does not let a test make a namespace it is skipped, with the
// reason.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <string>

#include "opal/btl/sm/module.hpp"
#include "tests/conformance/side.hpp"
#include "tests/harness/child.hpp"

namespace opal::btl::sm {
namespace {

using test::Channel;
using test::Child;
using test::CountedCompletion;
using test::kTag;
using test::pattern;
using test::pump;
using test::Side;

constexpr std::size_t kSize = 300'000;

bool write_file(const char* path, const std::string& text) {
  const Fd file{::open(path, O_WRONLY | O_CLOEXEC)};
  return file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

/// Enters new namespaces; in a user namespace our user gets the number `user`.  The reason when that is refused.
std::string enter(int flags, unsigned user) {
  const unsigned outside_user = ::geteuid();
  const unsigned outside_group = ::getegid();
  if (::unshare(flags) != 0) return std::string{"unshare: "} + std::strerror(errno);
  if ((flags & CLONE_NEWUSER) == 0) return "";
  const auto map = [](unsigned inside, unsigned outside) {
    return std::to_string(inside) + " " + std::to_string(outside) + " 1";
  };
  if (!write_file("/proc/self/setgroups", "deny") || !write_file("/proc/self/uid_map", map(user, outside_user)) ||
      !write_file("/proc/self/gid_map", map(user, outside_group))) {
    return std::string{"/proc/self/uid_map: "} + std::strerror(errno);
  }
  return "";
}

/// A process in namespaces of its own: exposes memory, echoes messages, gets and puts what the test exposes.
int inhabitant(Channel& parent) {
  const auto blob = parent.receive();
  const auto handle_bytes = parent.receive();
  Side own{"sm"};
  btl::Endpoint* const route = own.connect(blob);
  if (route == nullptr) return 1;
  parent.send(route->describe());
  const auto theirs = *MemoryHandle::from_bytes(handle_bytes);
  const std::uint64_t base = SoftwareHandle::decode(theirs)->base;
  auto memory = pattern(kSize, 1);
  const auto handle = *own.module().register_memory(memory.data(), memory.size(), Rights::all);
  parent.send(handle.bytes());
  const auto run = [&](const auto& operation) {
    CountedCompletion done;
    const Post post = operation(done);
    return post == Post::done || (post == Post::queued && pump([&] { return done.calls == 1; }, own) && done.ok());
  };
  std::vector<std::byte> copy(kSize);
  if (!run([&](Completion& done) { return own.module().get(*route, copy.data(), nullptr, base, theirs, kSize, done); }))
    return 2;
  if (copy != pattern(kSize, 2)) return 3;
  const auto bytes = pattern(kSize, 3);
  if (!run(
          [&](Completion& done) { return own.module().put(*route, bytes.data(), nullptr, base, theirs, kSize, done); }))
    return 4;
  for (std::uint32_t i = 0; i < 200; ++i) {
    if (test::send(*route, bytes_of(i), {}, own) != Post::done) return 5;
  }
  parent.send("said");
  while (!parent.ready()) own.module().progress(64);
  return parent.expect("stop") ? 0 : 6;
}

struct Outcome {
  std::string skipped;  ///< why no such namespaces could be made
  std::string inside;   ///< what the inhabitant says about its way to us
  std::string outside;  ///< what we say about our way to it
};

/// Everything in both directions with a peer in new namespaces.
Outcome talk_to_inhabitant(int flags, unsigned user) {
  Outcome outcome;
  Child child{[=](Channel& parent) {
    const std::string refused = enter(flags, user);
    parent.send(refused.empty() ? std::string{"entered"} : refused);
    if (!refused.empty()) return 0;
    if ((flags & CLONE_NEWPID) == 0) return inhabitant(parent);
    const pid_t first = ::fork();  // only children are in the new PID namespace
    if (first == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::_exit(::getpid() == 1 ? inhabitant(parent) : 7);
    }
    int status = 0;
    return ::waitpid(first, &status, 0) == first && WIFEXITED(status) ? WEXITSTATUS(status) : 8;
  }};
  const auto text = [&] {
    const auto bytes = child.channel().receive();
    return std::string{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  };
  if (outcome.skipped = text(); outcome.skipped != "entered") return outcome;
  outcome.skipped.clear();
  Side side{"sm"};
  auto memory = pattern(kSize, 2);
  const auto handle = *side.module().register_memory(memory.data(), memory.size(), Rights::all);
  child.channel().send(side.blob());
  child.channel().send(handle.bytes());
  EXPECT_TRUE(pump([&] { return child.channel().ready(); }, side));
  outcome.inside = text();
  EXPECT_TRUE(pump([&] { return child.channel().ready() && side.accepted.size() == 1; }, side));
  if (side.accepted.empty()) return outcome;
  btl::Endpoint& back = *side.accepted[0];
  outcome.outside = back.describe();
  const auto theirs = *MemoryHandle::from_bytes(child.channel().receive());
  EXPECT_TRUE(pump([&] { return child.channel().ready() && side.received.size() == 200; }, side));
  EXPECT_TRUE(child.channel().expect("said"));
  EXPECT_EQ(memory, pattern(kSize, 3)) << "its put";
  for (std::uint32_t i = 0; i < side.received.size(); ++i) EXPECT_EQ(std::memcmp(side.received[i].data(), &i, 4), 0);
  std::vector<std::byte> copy(kSize);
  CountedCompletion got;
  const Post post =
      side.module().get(back, copy.data(), nullptr, SoftwareHandle::decode(theirs)->base, theirs, kSize, got);
  EXPECT_TRUE(post == Post::done || pump([&] { return got.calls == 1; }, side));
  EXPECT_EQ(copy, pattern(kSize, 1)) << "our get";
  child.channel().send("stop");
  EXPECT_TRUE(pump([&] { return side.failures.size() == 1; }, side)) << "its end is noticed as well";
  EXPECT_EQ(child.wait(), 0);
  return outcome;
}

TEST(SmNamespaces, APeerInAnotherPidNamespaceIsReachedAndCmaIsRefusedWithTheReasonWhereItIsNotVisible) {
  const Outcome outcome = talk_to_inhabitant(CLONE_NEWUSER | CLONE_NEWPID, ::geteuid());
  if (!outcome.skipped.empty()) GTEST_SKIP() << "needs namespaces: " << outcome.skipped;
  EXPECT_NE(outcome.inside.find("no cma: the peer's process is not visible in this PID namespace"), std::string::npos)
      << outcome.inside;
  // We see its PID, as the kernel translates it for us; whether we may read it is the kernel's decision.
  EXPECT_EQ(outcome.outside.find("not visible"), std::string::npos) << outcome.outside;
  EXPECT_NE(outcome.outside.find("cma"), std::string::npos) << outcome.outside;
}

TEST(SmNamespaces, APeerWhoseUserHasAnotherNumberInItsNamespaceIsTheSameUser) {
  const Outcome outcome = talk_to_inhabitant(CLONE_NEWUSER, ::geteuid() + 4711);
  if (!outcome.skipped.empty()) GTEST_SKIP() << "needs namespaces: " << outcome.skipped;
  EXPECT_NE(outcome.inside.find("cma"), std::string::npos) << outcome.inside;
  EXPECT_NE(outcome.outside.find("cma"), std::string::npos) << outcome.outside;
}

TEST(SmNamespaces, APeerInAnotherNetworkNamespaceIsUnreachableWithTheReason) {
  Child child{[](Channel& parent) {
    const auto blob = parent.receive();
    const std::string refused = enter(CLONE_NEWUSER | CLONE_NEWNET, ::geteuid());
    if (!refused.empty()) {
      parent.send(refused);
      return 0;
    }
    PeerId peer;
    if (!read_object(blob, peer)) return 1;
    Side own{"sm"};
    const auto result = own.module().connect(peer, ByteSpan{blob}.subspan(sizeof peer));
    if (result || result.error().code != Errc::unreachable) return 2;
    parent.send(result.error().where);
    return 0;
  }};
  Side side{"sm"};
  child.channel().send(side.blob());
  const auto bytes = child.channel().receive();
  const std::string_view reason{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  EXPECT_EQ(child.wait(), 0);
  if (reason.starts_with("unshare") || reason.starts_with("/proc")) GTEST_SKIP() << "needs namespaces: " << reason;
  EXPECT_EQ(reason, "sm: the peer is on another host, or in another network namespace");
}

TEST(SmNamespaces, ADevShmOfOneMebibyteThatIsFullDoesNotMatter) {
  Child child{[](Channel& parent) {
    std::string refused = enter(CLONE_NEWUSER | CLONE_NEWNS, ::geteuid());
    if (refused.empty() && ::mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=1m") != 0) {
      refused = std::string{"mount: "} + std::strerror(errno);
    }
    parent.send(refused.empty() ? std::string{"entered"} : refused);
    if (!refused.empty()) return 0;
    const Fd file{::open("/dev/shm/full", O_CREAT | O_WRONLY | O_CLOEXEC, 0600)};
    const std::vector<std::byte> block(65536);
    while (::write(file.get(), block.data(), block.size()) > 0) {
    }
    struct statvfs left {};
    if (::statvfs("/dev/shm", &left) != 0 || left.f_bfree != 0) return 1;
    Side a{"sm"};
    Side b{"sm"};
    btl::Endpoint& route = *a.connect(b);
    auto memory = pattern(8 << 20, 1);  // more than there would be room for
    const auto handle = *b.module().register_memory(memory.data(), memory.size(), Rights::all);
    std::vector<std::byte> copy(memory.size());
    CountedCompletion got;
    const auto base = reinterpret_cast<std::uint64_t>(memory.data());
    const Post post = a.module().get(route, copy.data(), nullptr, base, handle, copy.size(), got);
    if (post != Post::done && !pump([&] { return got.calls == 1; }, a, b)) return 2;
    if (copy != memory) return 3;
    const auto large = pattern(30'000, 2);
    for (std::uint32_t i = 0; i < 300; ++i) {
      if (test::send(route, i % 3 == 0 ? ByteSpan{large} : bytes_of(i), {}, a, b) != Post::done) return 4;
    }
    return pump([&] { return b.received.size() == 300; }, a, b) ? 0 : 5;
  }};
  const auto bytes = child.channel().receive();
  const std::string_view reason{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  EXPECT_EQ(child.wait(), 0);
  if (reason != "entered") GTEST_SKIP() << "needs namespaces: " << reason;
}

}  // namespace
}  // namespace opal::btl::sm
