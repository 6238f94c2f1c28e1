// SPDX-License-Identifier: Apache-2.0
// What the transport asks of the kernel, and what it does when the kernel refuses: seccomp filters in child processes
// forbid system calls one by one.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "opal/btl/sm/module.hpp"
#include "opal/core/sanitizer.hpp"
#include "opal/core/sync/asymmetric_fence.hpp"
#include "tests/conformance/side.hpp"
#include "tests/harness/child.hpp"
#include "tests/harness/refused_call.hpp"

namespace opal::btl::sm {
namespace {

using test::Channel;
using test::Child;
using test::CountedCompletion;
using test::kTag;
using test::pattern;
using test::pump;
using test::refuse_system_call;
using test::Side;

#if !OPAL_ADDRESS_SANITIZER && !OPAL_THREAD_SANITIZER
/// From here on every system call of this thread but exit ends the process.
void forbid_system_calls() {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  test::install_filter(rules);
}

TEST(SmKernel, ShortMessagesInBothDirectionsNeedNoSystemCall) {
  constexpr std::uint32_t kRounds = 5000;
  Child child{[](Channel& parent) {
    Side own{"sm"};
    std::uint32_t answers = 0;
    own.handler = [&](btl::Delivery&) { ++answers; };
    btl::Endpoint* route = own.connect(parent.receive());
    for (std::uint32_t i = 0; i < kRounds; ++i) {
      if (i == 100) forbid_system_calls();  // boxes are open in both directions
      while (own.module().send_inline(*route, kTag, bytes_of(i), {}) != Post::done) own.module().progress(1);
      while (answers == i) own.module().progress(64);
    }
    ::syscall(SYS_exit_group, 7);
    return 0;
  }};
  Side side{"sm"};
  side.handler = [&](btl::Delivery& delivery) {
    ASSERT_EQ(side.module().send_inline(delivery.from, kTag, delivery.data, {}), Post::done);
  };
  child.channel().send(side.blob());
  ASSERT_TRUE(pump([&] { return !side.failures.empty(); }, side));
  const auto status = child.wait();
  ASSERT_TRUE(status);
  EXPECT_TRUE(WIFEXITED(*status)) << "killed for a system call";
  EXPECT_EQ(WEXITSTATUS(*status), 7);
}
#endif

TEST(SmKernel, SingleCopyThatIsForbiddenLaterIsFinishedThroughMessages) {
  Child child{[](Channel& parent) {
    const auto blob = parent.receive();
    const auto handle_bytes = parent.receive();
    std::uint64_t address = 0;
    if (!read_object(parent.receive(), address)) return 1;
    const MemoryHandle handle = *MemoryHandle::from_bytes(handle_bytes);
    Side own{"sm"};
    btl::Endpoint* route = own.connect(blob);
    if (!route->one_sided()) return 77;
    refuse_system_call(SYS_process_vm_writev);
    const auto bytes = pattern(100'000, 3);
    CountedCompletion put;
    if (own.module().put(*route, bytes.data(), nullptr, address, handle, bytes.size(), put) != Post::queued) return 2;
    if (!pump([&] { return put.calls == 1; }, own) || !put.ok()) return 3;
    if (route->one_sided() || route->describe().find("no cma: given up, process_vm_writev") == std::string::npos)
      return 4;
    parent.send("put");
    return parent.expect("stop") ? 0 : 5;
  }};
  Side side{"sm"};
  std::vector<std::byte> region(100'000);
  const auto handle = side.module().register_memory(region.data(), region.size(), Rights::all);
  child.channel().send(side.blob());
  child.channel().send(handle->bytes());
  child.channel().send(bytes_of(reinterpret_cast<std::uint64_t>(region.data())));
  ASSERT_TRUE(pump([&] { return child.channel().ready(); }, side));
  if (const bool done = child.channel().expect("put"); !done) {
    const auto status = child.wait();
    ASSERT_TRUE(status);
    if (WEXITSTATUS(*status) == 77) GTEST_SKIP() << "no CMA here";
    FAIL() << "the child ended with " << WEXITSTATUS(*status);
  }
  EXPECT_EQ(region, pattern(100'000, 3));
  child.channel().send("stop");
  EXPECT_EQ(child.wait(), 0);
}

// What a machine without memory says to fallocate (a test cannot fill the machine's; a memory cgroup's limit kills).
TEST(SmKernel, WithoutMemoryAModuleDoesNotOpenAndSaysSo) {
  Child child{[](Channel&) {
    Side host{"self"};
    refuse_system_call(SYS_fallocate, ENOSPC);
    const auto refused = Module::open(host.module().parameters(), Config{});
    return !refused && refused.error().os_errno == ENOSPC ? 0 : 1;
  }};
  EXPECT_EQ(child.wait(), 0);
}

TEST(SmKernel, MemoryThatEndsLaterRefusesNewPeersAndNeverKillsOldConversations) {
  Child child{[](Channel&) {
    Side own{"sm"};
    Side first{"sm"};
    Side second{"sm"};
    btl::Endpoint* const route = own.connect(first);
    refuse_system_call(SYS_fallocate, ENOSPC);
    const auto refused = own.module().connect(second.id(), ByteSpan{second.blob()}.subspan(sizeof(PeerId)));
    if (refused || refused.error().os_errno != ENOSPC) return 1;
    // Only the first page of the segment is there: what needs more says `again`, and nothing is written anywhere.
    const auto bytes = pattern(20'000, 1);
    for (int i = 0; i < 100; ++i) {
      if (own.module().send_inline(*route, kTag, bytes, {}) != Post::again) return 2;
      own.module().progress(1);
      first.module().progress(1);
    }
    return route->dead() || !own.failures.empty() ? 3 : 0;
  }};
  EXPECT_EQ(child.wait(), 0);
}

/// Sleeps until something can be done, for at most 20 s a time.
bool sleep_until(const std::function<bool()>& condition, Side& side) {
  while (!condition()) {
    if (side.module().progress(64) != 0 || !side.module().arm()) continue;
    pollfd fd{side.module().wait_fd(), POLLIN, 0};
    if (::poll(&fd, 1, 20'000) == 0) return false;
  }
  return true;
}

TEST(SmKernel, NoWakeUpIsLostWithOrWithoutMembarrier) {
  constexpr std::uint32_t kRounds = 2000;
  for (const bool forbidden : {false, true}) {
    Child child{[=](Channel& parent) {
      if (forbidden) {
        refuse_system_call(SYS_membarrier);
        if (accept_remote_fences()) return 1;
      }
      const auto blob = parent.receive();
      Side own{"sm"};
      btl::Endpoint* route = own.connect(blob);
      for (std::uint32_t i = 0; i < kRounds; ++i) {
        if (test::send(*route, bytes_of(i), {}, own) != Post::done) return 2;
        if (!sleep_until([&] { return own.received.size() == i + 1; }, own)) return 3;
      }
      return 0;
    }};
    Side side{"sm"};
    child.channel().send(side.blob());
    for (std::uint32_t i = 0; i < kRounds; ++i) {
      ASSERT_TRUE(sleep_until([&] { return side.received.size() == i + 1; }, side)) << "slept through message " << i;
      ASSERT_EQ(test::send(*side.accepted[0], bytes_of(i), {}, side), Post::done);
    }
    EXPECT_EQ(child.wait(), 0);
  }
}

TEST(SmKernel, WhoSleepsForRoomIsNeverForgottenWithOrWithoutMembarrier) {
  constexpr std::size_t kMessages = 2000;  // a hundred times as many as there is room for
  config::Store tight;
  tight.set("btl_sm_fbox_size", "4K");
  tight.set("btl_sm_fifo_slots", "16");
  for (const bool forbidden : {false, true}) {
    Child sender{[&](Channel& parent) {
      if (forbidden) {
        refuse_system_call(SYS_membarrier);
        if (accept_remote_fences()) return 1;
      }
      const auto blob = parent.receive();
      Side own{"sm", tight};
      btl::Endpoint* const route = own.connect(blob);
      const auto bytes = pattern(100, 1);
      std::size_t sleeps = 0;
      for (std::size_t sent = 0; sent < kMessages;) {
        const Post post = own.module().send_inline(*route, kTag, bytes, {});
        if (post == Post::failed) return 2;
        if (post == Post::done) {
          ++sent;
        } else if (own.module().progress(64) == 0 && own.module().arm()) {
          ++sleeps;
          pollfd fd{own.module().wait_fd(), POLLIN, 0};
          if (::poll(&fd, 1, 20'000) == 0) return 3;
        }
      }
      parent.send(bytes_of(sleeps));
      return own.failures.empty() && sleep_until([&] { return !own.received.empty(); }, own) ? 0 : 4;
    }};
    Side receiver{"sm", tight};
    sender.channel().send(receiver.blob());
    EXPECT_TRUE(sleep_until([&] { return receiver.received.size() == kMessages; }, receiver));
    std::size_t sleeps = 0;
    ASSERT_TRUE(read_object(sender.channel().receive(), sleeps));
    EXPECT_GT(sleeps, 0U) << "there was always room: nothing has been tested";
    ASSERT_EQ(test::send(*receiver.accepted.at(0), bytes_of(kMessages), {}, receiver), Post::done);
    EXPECT_EQ(sender.wait(), 0);
  }
}

}  // namespace
}  // namespace opal::btl::sm
