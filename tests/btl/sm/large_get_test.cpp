// SPDX-License-Identifier: Apache-2.0
// Large gets of the whole module: every way, forced and forced to fail, with the peer there, away, refusing and killed.
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <deque>
#include <random>

#include "opal/btl/sm/helped/state/helped_ring.hpp"
#include "opal/btl/sm/module.hpp"
#include "tests/btl/sm/raw_peer.hpp"
#include "tests/btl/sm/sides.hpp"
#include "tests/conformance/side.hpp"
#include "tests/harness/child.hpp"
#include "tests/harness/refused_call.hpp"

namespace opal::btl::sm {
namespace {

using test::Channel;
using test::Child;
using test::CountedCompletion;
using test::pattern;
using test::pump;
using test::refuse_system_call;
using test::Side;

constexpr std::size_t kRegion = 6'000'000;

struct Get : CountedCompletion {
  explicit Get(std::size_t size = kRegion) : bytes(size) {}
  std::size_t offset = 0;
  std::vector<std::byte> bytes;
};

/// Side `a` gets from a region of side `b`.
struct Pair {
  explicit Pair(const Config& config, bool cores_shared_at_a = false)
      : a{with(config), cores_shared_at_a}, b{with(config)}, route{*a.connect(b)} {
    handle = *b.module().register_memory(region.data(), region.size(), Rights::remote_read);
  }
  Post start(Get& get) {
    return a.module().get(route, get.bytes.data(), nullptr, reinterpret_cast<std::uint64_t>(region.data()) + get.offset,
                          handle, get.bytes.size(), get);
  }

  std::vector<std::byte> region = pattern(kRegion, 5);
  Side a;
  Side b;
  btl::Endpoint& route;
  MemoryHandle handle;
};

TEST(SmLargeGet, EveryWayBringsEveryByteForManySizesAtOnce) {
  for (const char* way : {"alone", "cooperative", "pipelined", "auto"}) {
    SCOPED_TRACE(way);
    Pair pair{forced(way)};
    std::mt19937 random{1};
    for (int round = 0; round < 4; ++round) {
      std::deque<Get> gets;
      int queued = 0;
      int ended = 0;
      while (gets.size() < 40) {
        const std::size_t limit = std::size_t{16'384} << random() % 9;
        Get& get = gets.emplace_back(16'384 + random() % limit);
        get.offset = random() % (kRegion - get.bytes.size());
        const Post post = pair.start(get);
        ASSERT_TRUE(post == Post::done || post == Post::queued);
        if (post == Post::done) get.calls = 1;
        queued += post == Post::queued ? 1 : 0;
      }
      ASSERT_TRUE(pump(
          [&] {
            ended = 0;
            for (const Get& get : gets) ended += get.calls;
            return ended == static_cast<int>(gets.size());
          },
          pair.a, pair.b));
      for (const Get& get : gets) {
        ASSERT_EQ(get.calls, 1);
        ASSERT_TRUE(get.ok()) << to_string(get.error);
        ASSERT_EQ(std::memcmp(get.bytes.data(), pair.region.data() + get.offset, get.bytes.size()), 0);
      }
      if (std::string_view{way} == "pipelined" || std::string_view{way} == "cooperative") {
        EXPECT_EQ(queued, 40);
      }
    }
  }
}

TEST(SmLargeGet, MoreThanFitTheQueueAreAllServed) {
  Pair pair{forced("pipelined")};
  std::deque<Get> gets;
  while (gets.size() < 200) {
    Get& get = gets.emplace_back(100'000);
    const Post post = pair.start(get);
    if (post == Post::done) get.calls = 1;
    ASSERT_TRUE(post == Post::done || post == Post::queued);
  }
  for (Get& get : gets) {
    ASSERT_TRUE(pump([&] { return get.calls == 1; }, pair.a, pair.b));
    EXPECT_EQ(std::memcmp(get.bytes.data(), pair.region.data(), get.bytes.size()), 0);
  }
}

TEST(SmLargeGet, APeerThatIsAwayIsNotNeededWhereSingleCopyWorks) {
  for (const char* way : {"cooperative", "pipelined"}) {
    Config config = forced(way);
    config.pipeline_wait = std::chrono::microseconds{5};
    Pair pair{config};
    SKIP_WITHOUT_CMA(pair.route);
    Get get;
    ASSERT_EQ(pair.start(get), Post::queued);
    ASSERT_TRUE(pump([&] { return get.calls == 1; }, pair.a)) << "b is never inside the library";
    EXPECT_EQ(get.bytes, pair.region);
    // What it finds when it comes back is over, and the next transfer works.
    const Post next = pair.start(get);
    ASSERT_TRUE(pump([&] { return get.calls == (next == Post::done ? 1 : 2); }, pair.a, pair.b));
    EXPECT_EQ(get.bytes, pair.region);
  }
}

TEST(SmLargeGet, ATargetThatDidNotHelpIsNotWaitedForUntilItHelpsAgain) {
  Config config = forced("pipelined");
  config.pipeline_wait = std::chrono::milliseconds{200};
  Pair pair{config};
  SKIP_WITHOUT_CMA(pair.route);
  Get get;
  const auto rounds_until = [&](int calls) {
    int rounds = 0;
    for (; get.calls < calls && rounds < 1000; ++rounds) (void)pair.a.module().progress(64);
    return rounds;
  };
  const auto starts_alone = [&] {
    int starts = 0;
    while (pair.start(get) == Post::done) ++starts;
    return starts;
  };
  ASSERT_EQ(pair.start(get), Post::queued);
  ASSERT_TRUE(pump([&] { return get.calls == 1; }, pair.a)) << "b is never inside the library";
  EXPECT_EQ(starts_alone(), 7) << "of eight transfers one asks";
  EXPECT_LE(rounds_until(2), 100) << "nothing is waited for";
  EXPECT_EQ(starts_alone(), 7);
  ASSERT_TRUE(pump([&] { return get.calls == 3; }, pair.b, pair.a)) << "b sends pieces";
  ASSERT_EQ(pair.start(get), Post::queued) << "b has helped, so it is asked";
  EXPECT_EQ(rounds_until(4), 1000) << "and waited for";
  ASSERT_TRUE(pump([&] { return get.calls == 4; }, pair.a));
  EXPECT_EQ(get.bytes, pair.region);
}

TEST(SmLargeGet, ATargetThatTookNothingOfACooperativeGetIsSeldomAsked) {
  Pair pair{forced("cooperative")};
  SKIP_WITHOUT_CMA(pair.route);
  Get get;
  ASSERT_EQ(pair.start(get), Post::queued);
  ASSERT_TRUE(pump([&] { return get.calls == 1; }, pair.a)) << "b is never inside the library";
  for (int i = 0; i < 7; ++i) EXPECT_EQ(pair.start(get), Post::done) << i;
  EXPECT_EQ(pair.start(get), Post::queued) << "one of eight asks";
  ASSERT_TRUE(pump([&] { return get.calls == 2; }, pair.a));
  EXPECT_EQ(get.bytes, pair.region);
}

TEST(SmLargeGet, WithoutAForcedModeEveryModeIsTriedAndBringsEveryByte) {
  Pair pair{forced("auto")};
  SKIP_WITHOUT_CMA(pair.route);
  int alone = 0;
  for (int i = 0; i < 6; ++i) {
    Get get{100'000};
    const Post post = pair.start(get);
    ASSERT_TRUE(post == Post::done || pump([&] { return get.calls == 1; }, pair.a, pair.b));
    alone += post == Post::done ? 1 : 0;
    EXPECT_EQ(std::memcmp(get.bytes.data(), pair.region.data(), get.bytes.size()), 0);
  }
  EXPECT_EQ(alone, 2) << "of the six trials, two have no help";
}

TEST(SmLargeGet, ASleepingPeerIsLeftAsleepWhereSingleCopyWorks) {
  Pair pair{forced("pipelined")};
  SKIP_WITHOUT_CMA(pair.route);
  ASSERT_TRUE(pump([&] { return pair.b.module().arm(); }, pair.b));
  Get get;
  EXPECT_EQ(pair.start(get), Post::done);
  EXPECT_EQ(get.bytes, pair.region);
}

TEST(SmLargeGet, WhereProcessesOutnumberCoresNobodyIsAskedToHelp) {
  Pair pair{forced("pipelined"), true};
  SKIP_WITHOUT_CMA(pair.route);
  Get get;
  EXPECT_EQ(pair.start(get), Post::done);
  EXPECT_EQ(get.bytes, pair.region);
}

TEST(SmLargeGet, WithoutSingleCopyThePeerDoesItAllAndBothMaySleepInBetween) {
  Pair pair{forced("auto", "none")};
  Get get;
  ASSERT_EQ(pair.start(get), Post::queued);
  // Each works only when its doorbell rings.
  const auto sleep_or_work = [](Side& side) {
    if (side.module().arm()) {
      pollfd fd{side.module().wait_fd(), POLLIN, 0};
      if (::poll(&fd, 1, 0) == 0) return false;
    }
    side.module().progress(64);
    return true;
  };
  bool stuck = false;
  while (get.calls == 0 && !stuck) {
    const bool first = sleep_or_work(pair.a);
    const bool second = sleep_or_work(pair.b);
    stuck = !first && !second;
  }
  ASSERT_FALSE(stuck) << "both sleep and the transfer is not over";
  EXPECT_TRUE(get.ok());
  EXPECT_EQ(get.bytes, pair.region);
}

TEST(SmLargeGet, ARegistrationThatEndsMeanwhileEndsTheGetWithAnError) {
  for (const char* single_copy : {"none", "cma"}) {
    Pair pair{forced("pipelined", single_copy)};
    Get get;
    ASSERT_EQ(pair.start(get), Post::queued);
    pair.b.module().progress(64);  // some pieces
    ASSERT_TRUE(pair.b.module().deregister_memory(pair.handle));
    ASSERT_TRUE(pump([&] { return get.calls == 1; }, pair.a, pair.b));
    EXPECT_EQ(get.error.code, Errc::invalid_argument) << to_string(get.error);
    EXPECT_FALSE(pair.route.dead());
  }
}

TEST(SmLargeGet, DisconnectingCompletesWhatIsUnderWayOnce) {
  Pair pair{forced("pipelined")};
  std::deque<Get> gets(5);
  for (Get& get : gets) {
    ASSERT_EQ(pair.start(get), Post::queued);
  }
  pair.b.module().progress(64);
  pair.a.module().progress(1);
  pair.a.module().disconnect(pair.route);
  for (const Get& get : gets) {
    EXPECT_EQ(get.calls, 1);
    EXPECT_EQ(get.error.code, Errc::canceled);
  }
  ASSERT_TRUE(pump([&] { return pair.b.failures.size() == 1; }, pair.a, pair.b));
}

/// Gets all of the region that the parent exposes, `rounds` times; `before` runs when connected.  0 when all was right.
int get_all(Channel& parent, const Config& config, int rounds, const std::function<void()>& before) {
  const auto blob = parent.receive();
  const MemoryHandle handle = *MemoryHandle::from_bytes(parent.receive());
  std::uint64_t address = 0;
  if (!read_object(parent.receive(), address)) return 1;
  Side own{with(config)};
  btl::Endpoint* route = own.connect(blob);
  before();
  for (int i = 0; i < rounds; ++i) {
    Get get;
    const Post post = own.module().get(*route, get.bytes.data(), nullptr, address, handle, kRegion, get);
    if (post == Post::failed || post == Post::again) return 2;
    if (post == Post::queued && !pump([&] { return get.calls == 1; }, own)) return 3;
    if (!get.ok() || get.bytes != pattern(kRegion, 5)) return 4;
  }
  parent.send("done");
  return parent.expect("stop") ? 0 : 5;
}

TEST(SmLargeGet, WhenCopyingIsForbiddenInMidTransferTheOtherMechanismsFinishIt) {
  struct Case {
    const char* way;
    unsigned call;
    bool at_puller;
  };
  for (const Case& test : {Case{"cooperative", SYS_process_vm_writev, false},  // the initiator copies the rest
                           Case{"cooperative", SYS_process_vm_readv, true},    // messages repeat the get
                           Case{"pipelined", SYS_process_vm_readv, true}, Case{"alone", SYS_process_vm_readv, true}}) {
    SCOPED_TRACE(test.way);
    Child initiator{[&](Channel& parent) {
      Config config = forced(test.way);
      config.pipeline_wait = {};  // tries to copy whatever the helper has not taken
      return get_all(parent, config, 3, [&] {
        if (test.at_puller) refuse_system_call(test.call);
      });
    }};
    Child target{[&](Channel& parent) {
      Side own{with(forced(test.way))};
      auto region = pattern(kRegion, 5);
      const auto handle = own.module().register_memory(region.data(), region.size(), Rights::remote_read);
      parent.send(own.blob());
      parent.send(handle->bytes());
      parent.send(bytes_of(reinterpret_cast<std::uint64_t>(region.data())));
      if (!pump([&] { return !own.accepted.empty(); }, own)) return 1;
      if (!test.at_puller) refuse_system_call(test.call);
      return pump([&] { return parent.ready(); }, own) ? 0 : 2;
    }};
    for (int i = 0; i < 3; ++i) initiator.channel().send(target.channel().receive());
    EXPECT_TRUE(initiator.channel().expect("done"));
    initiator.channel().send("stop");
    EXPECT_EQ(initiator.wait(), 0);
    target.channel().send("stop");
    EXPECT_EQ(target.wait(), 0);
  }
}

TEST(SmLargeGet, AHelperKilledAtAnyMomentEndsTheGetOnceWithPeerGone) {
  for (int round = 0; round < 24; ++round) {
    const char* way = round % 2 == 0 ? "pipelined" : "cooperative";
    const char* single_copy = round % 3 == 0 ? "none" : "cma";
    SCOPED_TRACE(way);
    Child target{[&](Channel& parent) {
      Side own{with(forced(way, single_copy))};
      auto region = pattern(kRegion, 5);
      const auto handle = own.module().register_memory(region.data(), region.size(), Rights::remote_read);
      parent.send(own.blob());
      parent.send(handle->bytes());
      parent.send(bytes_of(reinterpret_cast<std::uint64_t>(region.data())));
      while (true) own.module().progress(64);
      return 0;
    }};
    Side side{with(forced(way, single_copy))};
    const auto blob = target.channel().receive();
    const MemoryHandle handle = *MemoryHandle::from_bytes(target.channel().receive());
    std::uint64_t address = 0;
    ASSERT_TRUE(read_object(target.channel().receive(), address));
    btl::Endpoint* route = side.connect(blob);
    std::deque<Get> gets(8);
    std::size_t ended = 0;
    const auto count_ended = [&] {
      ended = 0;
      for (const Get& get : gets) ended += static_cast<std::size_t>(get.calls);
    };
    for (Get& get : gets) {
      const Post post = side.module().get(*route, get.bytes.data(), nullptr, address, handle, kRegion, get);
      ASSERT_NE(post, Post::again);
      if (post != Post::queued) get.calls = 1;
    }
    for (int step = 0; step < round * 40; ++step) side.module().progress(1);
    target.kill();
    ASSERT_TRUE(pump([&] { return side.failures.size() == 1; }, side));
    count_ended();
    EXPECT_EQ(ended, gets.size());
    for (const Get& get : gets) {
      EXPECT_EQ(get.calls, 1);
      if (get.ok()) {
        EXPECT_EQ(get.bytes, pattern(kRegion, 5));
      } else {
        EXPECT_TRUE(get.error.code == Errc::peer_gone || get.error.code == Errc::invalid_argument)
            << to_string(get.error);
      }
    }
  }
}

TEST(SmLargeGet, AGarbledRequestForHelpEndsThatPeersConversationOnly) {
  wire::HelpRequest good{};
  good.size = 100'000;
  good.line = 64;
  good.least_share = 1;
  const auto changed = [&](auto change) {
    wire::HelpRequest request = good;
    change(request);
    return request;
  };
  Side victim{"sm"};
  Side friendly{"sm"};
  btl::Endpoint& route = *friendly.connect(victim);
  for (const wire::HelpRequest& request :
       {changed([](auto& r) { r.line = 0; }), changed([](auto& r) { r.line = 0xffffff; }),
        changed([](auto& r) { r.generation = 1U << 15; }), changed([](auto& r) { r.least_share = 0; }),
        changed([](auto& r) { r.least_share = UINT32_MAX; }), changed([](auto& r) { r.put = 2; }),
        changed([](auto& r) { r.put = 1; }), changed([](auto& r) { r.size = 0; }),
        changed([](auto& r) { r.size = UINT64_MAX; })}) {
    RawPeer peer{victim};
    const std::size_t before = victim.failures.size();
    peer.send(wire::kHelpRequest, bytes_of(request));
    ASSERT_TRUE(pump([&] { return victim.failures.size() == before + 1; }, victim));
    EXPECT_EQ(victim.failures.back().why.code, Errc::protocol) << to_string(victim.failures.back().why);
  }
  RawPeer peer{victim};
  const std::size_t before = victim.failures.size();
  peer.send(wire::kHelpRequest, bytes_of(good).first(40));
  ASSERT_TRUE(pump([&] { return victim.failures.size() == before + 1; }, victim));
  EXPECT_FALSE(route.dead());
}

TEST(SmLargeGet, APullRequestOfAPeerOfAnotherTransportIsDropped) {
  Side victim{"sm"};
  Side elsewhere{"self"};  // no endpoint of sm, as a peer that came by tcp
  btl::Endpoint& from = *elsewhere.connect(elsewhere);
  const wire::HelpRequest request{};
  for (const ByteSpan bytes : {ByteSpan{bytes_of(request)}, ByteSpan{bytes_of(request)}.first(3)}) {
    Delivery delivery{from, wire::kHelpRequest, bytes};
    victim.handlers().dispatch(delivery);
  }
  EXPECT_TRUE(victim.failures.empty());
  EXPECT_TRUE(elsewhere.failures.empty());
  EXPECT_FALSE(from.dead());
}

}  // namespace
}  // namespace opal::btl::sm
