// SPDX-License-Identifier: Apache-2.0
// Large puts of the whole module, by one side and by both: the target there, away, refusing, killed; mechanisms that
// fail in mid-transfer on either side; and flush, which waits for all of them.
#include <poll.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <deque>
#include <random>

#include "tests/btl/sm/sides.hpp"
#include "tests/conformance/side.hpp"
#include "tests/harness/child.hpp"
#include "tests/harness/refused_call.hpp"

namespace opal::btl::sm {
namespace {

using test::Channel;
using test::Child;
using test::CountedCompletion;
using test::filter_system_call;
using test::pattern;
using test::pump;
using test::refuse_system_call;
using test::Side;

constexpr std::size_t kRegion = 6'000'000;

/// Two sides, and a region of the second that the first may write.
struct Pair {
  explicit Pair(std::string_view way) : a(with(forced(way))), b(with(forced(way))), route(*a.connect(b)) {
    handle = *b.module().register_memory(region.data(), region.size(), Rights::remote_write);
  }
  [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(region.data()); }
  Post put(const std::vector<std::byte>& bytes, std::size_t offset, Completion& completion) {
    return a.module().put(route, bytes.data(), nullptr, address() + offset, handle, bytes.size(), completion);
  }

  std::vector<std::byte> region = std::vector<std::byte>(kRegion);
  Side a;
  Side b;
  btl::Endpoint& route;
  MemoryHandle handle;
};

struct Put : CountedCompletion {
  std::vector<std::byte> bytes;
  std::size_t offset = 0;
};

TEST(SmLargePut, EveryWayBringsEveryByteAndFlushWaitsForAllOfThem) {
  for (const char* way : {"alone", "cooperative", "auto"}) {
    SCOPED_TRACE(way);
    Pair pair{way};
    SKIP_WITHOUT_CMA(pair.route);
    std::mt19937 random{1};
    for (int round = 0; round < 6; ++round) {
      std::deque<Put> puts(30);
      std::size_t at = 0;
      int queued = 0;
      for (Put& put : puts) {
        const std::size_t limit = std::size_t{16'384} << random() % 4;
        put.bytes = pattern(16'384 + random() % limit, random());
        put.offset = at;
        at += put.bytes.size();
        const Post post = pair.put(put.bytes, put.offset, put);
        ASSERT_TRUE(post == Post::done || post == Post::queued);
        if (post == Post::done) put.calls = 1;
        queued += post == Post::queued ? 1 : 0;
      }
      CountedCompletion flushed;
      const Post post = pair.a.module().flush(round % 2 == 0 ? &pair.route : nullptr, flushed);
      ASSERT_EQ(post, queued != 0 ? Post::queued : Post::done);
      if (queued != 0) {
        ASSERT_TRUE(pump([&] { return flushed.calls == 1; }, pair.a, pair.b));
      }
      for (const Put& put : puts) {
        ASSERT_EQ(put.calls, 1) << "flushed before this put had ended";
        ASSERT_TRUE(put.ok()) << to_string(put.error);
        ASSERT_EQ(std::memcmp(put.bytes.data(), pair.region.data() + put.offset, put.bytes.size()), 0);
      }
      if (std::string_view{way} == "cooperative") {
        EXPECT_EQ(queued, 30);
      }
      if (std::string_view{way} == "alone") {
        EXPECT_EQ(queued, 0);
      }
    }
  }
}

TEST(SmLargePut, BothSidesCopy) {
  Pair pair{"cooperative"};
  SKIP_WITHOUT_CMA(pair.route);
  Put put;
  put.bytes = pattern(kRegion, 3);
  ASSERT_EQ(pair.put(put.bytes, 0, put), Post::queued);
  pair.b.module().progress(64);  // the initiator has copied nothing yet
  EXPECT_EQ(std::memcmp(put.bytes.data(), pair.region.data(), 4096), 0) << "the target takes from the front";
  EXPECT_NE(std::memcmp(put.bytes.data() + kRegion - 4096, pair.region.data() + kRegion - 4096, 4096), 0);
  ASSERT_TRUE(pump([&] { return put.calls == 1; }, pair.a, pair.b));
  EXPECT_EQ(pair.region, put.bytes);
}

TEST(SmLargePut, ATargetThatIsAwayIsNotNeeded) {
  Pair pair{"cooperative"};
  SKIP_WITHOUT_CMA(pair.route);
  Put put;
  put.bytes = pattern(kRegion, 3);
  ASSERT_EQ(pair.put(put.bytes, 0, put), Post::queued);
  ASSERT_TRUE(pump([&] { return put.calls == 1; }, pair.a)) << "b is never inside the library";
  EXPECT_EQ(pair.region, put.bytes);
  // What it finds when it comes back is over, and the next transfer works.
  put.bytes = pattern(kRegion, 4);
  int alone = 0;
  while (pair.put(put.bytes, 0, put) == Post::done) ++alone;
  EXPECT_EQ(alone, 7) << "of eight transfers one asks a target that has not helped";
  ASSERT_TRUE(pump([&] { return put.calls == 2; }, pair.a, pair.b));
  EXPECT_EQ(pair.region, put.bytes);
  // One that sleeps is left asleep.
  ASSERT_TRUE(pump([&] { return pair.b.module().arm(); }, pair.b));
  put.bytes = pattern(kRegion, 5);
  EXPECT_EQ(pair.put(put.bytes, 0, put), Post::done);
  EXPECT_EQ(pair.region, put.bytes);
}

TEST(SmLargePut, ARegistrationThatEndsMeanwhileOrDoesNotAllowItEndsThePutWithAnError) {
  Pair pair{"cooperative"};
  SKIP_WITHOUT_CMA(pair.route);
  Put put;
  put.bytes = pattern(kRegion, 3);
  ASSERT_EQ(pair.put(put.bytes, 0, put), Post::queued);
  pair.b.module().progress(64);  // some pieces
  ASSERT_TRUE(pair.b.module().deregister_memory(pair.handle));
  ASSERT_TRUE(pump([&] { return put.calls == 1; }, pair.a, pair.b));
  EXPECT_EQ(put.error.code, Errc::invalid_argument) << to_string(put.error);
  EXPECT_FALSE(pair.route.dead());
  pair.handle = *pair.b.module().register_memory(pair.region.data(), kRegion, Rights::remote_read);
  EXPECT_EQ(pair.put(put.bytes, 0, put), Post::failed);
  EXPECT_EQ(put.error.code, Errc::permission) << to_string(put.error);
}

TEST(SmLargePut, DisconnectingCompletesWhatIsUnderWayAndItsFlushesOnce) {
  Pair pair{"cooperative"};
  SKIP_WITHOUT_CMA(pair.route);
  std::deque<Put> puts(5);
  for (Put& put : puts) {
    put.bytes = pattern(kRegion, 3);
    ASSERT_EQ(pair.put(put.bytes, 0, put), Post::queued);
  }
  CountedCompletion flushed;
  ASSERT_EQ(pair.a.module().flush(nullptr, flushed), Post::queued);
  pair.b.module().progress(64);
  pair.a.module().progress(1);
  pair.a.module().disconnect(pair.route);
  for (const Put& put : puts) {
    EXPECT_EQ(put.calls, 1);
    EXPECT_EQ(put.error.code, Errc::canceled);
  }
  EXPECT_EQ(flushed.calls, 1);
}

/// Puts into the region that the parent exposes, `rounds` times; `before` runs when connected.  0 when all was right.
int put_all(Channel& parent, int rounds, const std::function<void()>& before) {
  const auto blob = parent.receive();
  const MemoryHandle handle = *MemoryHandle::from_bytes(parent.receive());
  std::uint64_t address = 0;
  if (!read_object(parent.receive(), address)) return 1;
  Side own{with(forced("cooperative"))};
  btl::Endpoint* route = own.connect(blob);
  before();
  const auto bytes = pattern(kRegion, 5);
  for (int i = 0; i < rounds; ++i) {
    Put put;
    const Post post = own.module().put(*route, bytes.data(), nullptr, address, handle, kRegion, put);
    if (post == Post::failed || post == Post::again) return 2;
    if (post == Post::queued) {
      CountedCompletion flushed;
      if (own.module().flush(route, flushed) != Post::queued) return 6;
      if (!pump([&] { return flushed.calls == 1; }, own)) return 3;
      if (put.calls != 1) return 7;  // a flush also waits for what messages carry
    }
    if (!put.ok()) return 4;
    parent.send("put");
    if (!parent.expect("next")) return 5;
  }
  return 0;
}

TEST(SmLargePut, WhenCopyingIsForbiddenInMidTransferTheOtherSideOrMessagesFinishIt) {
  for (const bool at_initiator : {true, false}) {
    SCOPED_TRACE(at_initiator);
    Child initiator{[&](Channel& parent) {
      return put_all(parent, 3, [&] {
        if (at_initiator) refuse_system_call(SYS_process_vm_writev);
      });
    }};
    Child target{[&](Channel& parent) {
      Side own{with(forced("cooperative"))};
      std::vector<std::byte> region(kRegion);
      const auto handle = own.module().register_memory(region.data(), region.size(), Rights::remote_write);
      parent.send(own.blob());
      parent.send(handle->bytes());
      parent.send(bytes_of(reinterpret_cast<std::uint64_t>(region.data())));
      if (!pump([&] { return !own.accepted.empty(); }, own)) return 1;
      if (!at_initiator) refuse_system_call(SYS_process_vm_readv);
      for (int i = 0; i < 3; ++i) {
        if (!pump([&] { return parent.ready(); }, own)) return 2;
        if (!parent.expect("look")) return 3;
        if (region != pattern(kRegion, 5)) return 4;
        std::fill(region.begin(), region.end(), std::byte{});
        parent.send("right");
      }
      return 0;
    }};
    for (int i = 0; i < 3; ++i) initiator.channel().send(target.channel().receive());
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(initiator.channel().expect("put"));
      target.channel().send("look");
      ASSERT_TRUE(target.channel().expect("right"));
      initiator.channel().send("next");
    }
    EXPECT_EQ(initiator.wait(), 0);
    EXPECT_EQ(target.wait(), 0);
  }
}

#if defined(__x86_64__)
std::function<void()> before_refusal;

/// Handles SIGSYS of a system call that a filter traps: the call returns EPERM.
void refuse_trapped_call(int /*signal*/, siginfo_t* /*info*/, void* context) {
  before_refusal();
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RAX] = -EPERM;
}

TEST(SmLargePut, AnInitiatorThatSleepsIsWokenWhenTheTargetReturnsItsUnits) {
  Child both{[&](Channel&) {
    Pair pair{"cooperative"};
    if (!pair.route.one_sided()) return 0;  // other tests report the lack of CMA
    Put put;
    put.bytes = pattern(kRegion, 3);
    if (pair.put(put.bytes, 0, put) != Post::queued) return 1;
    bool asleep = false;
    before_refusal = [&] {  // the target has taken its first piece
      if (!asleep) asleep = pump([&] { return pair.a.module().arm(); }, pair.a);
    };
    struct sigaction action {};
    action.sa_sigaction = refuse_trapped_call;
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGSYS, &action, nullptr);
    filter_system_call(SYS_process_vm_readv, SECCOMP_RET_TRAP);
    pair.b.module().progress(64);
    if (!asleep || put.calls != 0) return 2;
    pollfd doorbell{pair.a.module().wait_fd(), POLLIN, 0};
    if (::poll(&doorbell, 1, 0) != 1) return 3;
    if (!pump([&] { return put.calls == 1; }, pair.a)) return 4;
    return put.ok() && pair.region == put.bytes ? 0 : 5;
  }};
  EXPECT_EQ(both.wait(), 0);
}
#endif

TEST(SmLargePut, ATargetKilledAtAnyMomentEndsPutsAndFlushesOnce) {
  for (int round = 0; round < 12; ++round) {
    Child target{[&](Channel& parent) {
      Side own{with(forced("cooperative"))};
      std::vector<std::byte> region(kRegion);
      const auto handle = own.module().register_memory(region.data(), region.size(), Rights::remote_write);
      parent.send(own.blob());
      parent.send(handle->bytes());
      parent.send(bytes_of(reinterpret_cast<std::uint64_t>(region.data())));
      while (true) own.module().progress(64);
      return 0;
    }};
    Side side{with(forced("cooperative"))};
    const auto blob = target.channel().receive();
    const MemoryHandle handle = *MemoryHandle::from_bytes(target.channel().receive());
    std::uint64_t address = 0;
    ASSERT_TRUE(read_object(target.channel().receive(), address));
    btl::Endpoint* route = side.connect(blob);
    const auto bytes = pattern(kRegion, 5);
    std::deque<Put> puts(6);
    for (Put& put : puts) {
      const Post post = side.module().put(*route, bytes.data(), nullptr, address, handle, kRegion, put);
      ASSERT_NE(post, Post::again);
      if (post != Post::queued) put.calls = 1;
    }
    CountedCompletion flushed;
    if (side.module().flush(route, flushed) == Post::done) flushed.calls = 1;
    for (int step = 0; step < round * 20; ++step) side.module().progress(1);
    target.kill();
    ASSERT_TRUE(pump([&] { return side.failures.size() == 1; }, side));
    for (const Put& put : puts) {
      EXPECT_EQ(put.calls, 1);
      EXPECT_TRUE(put.ok() || put.error.code == Errc::peer_gone || put.error.code == Errc::invalid_argument)
          << to_string(put.error);
    }
    EXPECT_EQ(flushed.calls, 1);
  }
}

}  // namespace
}  // namespace opal::btl::sm
