// SPDX-License-Identifier: Apache-2.0
// The shared-memory module as a whole, beyond what every transport must do: when boxes are used, that the order holds
// across all paths and sequence wrap-around, what a message and an idle peer cost, and single copy switched off.
#include "opal/btl/sm/module.hpp"

#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <thread>

#include "opal/core/sanitizer.hpp"
#include "tests/btl/sm/internals.hpp"
#include "tests/conformance/side.hpp"
#include "tests/harness/in_child.hpp"

namespace {
thread_local std::size_t allocations = 0;  // by operator new in this thread
}

#if !OPAL_THREAD_SANITIZER
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc{};
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif

namespace opal::btl::sm {
namespace {

using test::CountedCompletion;
using test::kTag;
using test::pattern;
using test::pump;
using test::Side;

Module& module_of(Side& side) { return static_cast<Module&>(side.module()); }

config::Store with(std::string_view name, std::string_view value) {
  config::Store store;
  store.set(name, value);
  return store;
}

/// Sends `count` short messages and lets them arrive.
void exchange(btl::Endpoint& to, Side& from, Side& receiver, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t before = receiver.received.size();
    ASSERT_EQ(test::send(to, bytes_of(i), {}, from, receiver), Post::done);
    ASSERT_TRUE(pump([&] { return receiver.received.size() == before + 1; }, receiver));
  }
}

TEST(SmBox, IsUsedAfterAsManySendsAsTheThresholdSays) {
  Side a{"sm"};
  Side b{"sm"};
  btl::Endpoint& route = *a.connect(b);
  exchange(route, a, b, 16);
  EXPECT_EQ(fast_boxes(module_of(b)).accepted(), 0U);
  exchange(route, a, b, 1);  // carries the offer
  EXPECT_EQ(fast_boxes(module_of(b)).accepted(), 1U);
  exchange(route, a, b, 1);  // sees the answer
  EXPECT_TRUE(has_fast_box(route));
  EXPECT_NE(route.describe().find("fast box in use"), std::string::npos) << route.describe();
  EXPECT_EQ(fast_boxes(module_of(a)).accepted(), 0U) << "a box has one direction";
}

TEST(SmBox, NoMoreAreAcceptedThanAllowedAndARefusedPeerAsksAgain) {
  Side receiver{"sm", with("btl_sm_fbox_max", "2")};
  std::vector<std::unique_ptr<Side>> senders;
  std::vector<btl::Endpoint*> routes;
  for (int i = 0; i < 4; ++i) {
    senders.push_back(std::make_unique<Side>("sm"));
    routes.push_back(senders.back()->connect(receiver));
    exchange(*routes.back(), *senders.back(), receiver, 100);
  }
  EXPECT_EQ(fast_boxes(module_of(receiver)).accepted(), 2U);
  EXPECT_FALSE(has_fast_box(*routes[3]));
  senders[0]->module().disconnect(*routes[0]);
  ASSERT_TRUE(pump([&] { return receiver.failures.size() == 1; }, receiver));
  EXPECT_EQ(fast_boxes(module_of(receiver)).accepted(), 1U);
  exchange(*routes[3], *senders[3], receiver, 1100);
  EXPECT_TRUE(has_fast_box(*routes[3]));
  EXPECT_EQ(fast_boxes(module_of(receiver)).accepted(), 2U);
}

TEST(SmBox, ThirtyTwoAreAcceptedByDefault) {
  EXPECT_EQ(Config{}.fbox_max, 32U);
  Side receiver{"sm"};
  std::vector<std::unique_ptr<Side>> senders;
  for (int i = 0; i < 34; ++i) {
    senders.push_back(std::make_unique<Side>("sm"));
    exchange(*senders.back()->connect(receiver), *senders.back(), receiver, 20);
  }
  EXPECT_EQ(fast_boxes(module_of(receiver)).accepted(), 32U);
}

TEST(SmBox, AMaximumOfZeroTurnsBoxesOff) {
  Side a{"sm"};
  Side b{"sm", with("btl_sm_fbox_max", "0")};
  btl::Endpoint& route = *a.connect(b);
  exchange(route, a, b, 50);
  EXPECT_FALSE(has_fast_box(route));
  EXPECT_EQ(b.received.size(), 50U);
}

TEST(SmOrder, HoldsAcrossBoxAndFifoAndThreeWrapAroundsOfTheSequence) {
  Side a{"sm"};
  Side b{"sm"};
  btl::Endpoint& route = *a.connect(b);
  constexpr std::uint32_t kCount = 3 * 65536 + 1000;
  std::uint32_t next = 0;
  b.handler = [&](btl::Delivery& delivery) {
    std::uint32_t number = 0;
    ASSERT_TRUE(read_object(delivery.data, number));
    ASSERT_EQ(number, next);
    ++next;
  };
  std::vector<std::byte> payload(20'000);
  std::uint32_t random = 1;
  for (std::uint32_t i = 0; i < kCount;) {
    random = random * 1664525U + 1013904223U;
    // Mostly short for the box; sometimes longer ones that must go by FIFO; the receiver lags by chance.
    const std::size_t size = random % 100 < 80   ? random % 40
                             : random % 100 < 99 ? 1000 + random % 2000
                                                 : payload.size();
    const Post post = a.module().send_inline(route, kTag, bytes_of(i), ByteSpan{payload}.first(size));
    ASSERT_NE(post, Post::failed);
    i += post == Post::done ? 1 : 0;
    if (post == Post::again || random % 64 == 0) b.module().progress(random >> 28);
  }
  ASSERT_TRUE(pump([&] { return next == kCount; }, b));
  EXPECT_TRUE(b.failures.empty());
  EXPECT_EQ(fast_boxes(module_of(b)).accepted(), 1U);
}

TEST(SmOrder, HoldsForFragmentsSentInAnotherOrderThanTheyWereAllocated) {
  Side a{"sm"};
  Side b{"sm"};
  btl::Endpoint& route = *a.connect(b);
  std::uint32_t number = 0;
  for (int round = 0; round < 500; ++round) {
    std::vector<Fragment> fragments;
    for (const std::size_t size : {2000, 10, 9000, 4, 3000}) {
      fragments.push_back(a.module().alloc(route, size));
      ASSERT_TRUE(fragments.back());
    }
    for (const std::size_t which : {3, 0, 4, 2}) {  // the second is never sent
      std::memcpy(fragments[which].data().data(), &number, sizeof number);
      ASSERT_EQ(a.module().send(fragments[which], kTag), Post::done);
      ++number;
    }
    ASSERT_EQ(a.module().send_inline(route, kTag, bytes_of(number), {}), Post::done);
    ++number;
    ASSERT_TRUE(pump([&] { return b.received.size() == number; }, b));
  }
  for (std::uint32_t i = 0; i < number; ++i) ASSERT_EQ(std::memcmp(b.received[i].data(), &i, sizeof i), 0) << i;
}

struct Counter {
  void on_message(btl::Delivery&) noexcept { ++count; }
  std::uint64_t count = 0;
};

TEST(SmCost, AShortMessageAllocatesNothingOnEitherSide) {
  if constexpr (OPAL_THREAD_SANITIZER) GTEST_SKIP() << "needs no ThreadSanitizer: its operator new cannot be replaced";
  Side a{"sm"};
  Side b{"sm"};
  Counter counter;
  ASSERT_TRUE(b.handlers().set(kTag + 1, btl::bind<&Counter::on_message>(counter, "count")));
  btl::Endpoint& route = *a.connect(b);
  exchange(route, a, b, 20);
  const auto header = pattern(16, 1);
  const auto payload = pattern(8, 1);
  const std::size_t before = allocations;
  for (int i = 0; i < 100'000; ++i) {
    ASSERT_EQ(a.module().send_inline(route, kTag + 1, header, payload), Post::done);
    b.module().progress(64);
  }
  EXPECT_EQ(allocations, before);
  EXPECT_EQ(counter.count, 100'000U);
}

/// Bytes that the kernel holds for this process's memory files called `name`.
std::size_t memory_of_files(const std::string& name) {
  std::size_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator{"/proc/self/fd"}) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    struct stat status {};
    if (target.find(name) != std::string::npos && ::stat(entry.path().c_str(), &status) == 0) {
      bytes += static_cast<std::size_t>(status.st_blocks) * 512;
    }
  }
  return bytes;
}

TEST(SmCost, AConnectedPeerThatIsIdleCostsOnePage) {
  Side hub{"sm"};
  std::vector<std::unique_ptr<Side>> peers;
  for (int i = 0; i < 10; ++i) {
    peers.push_back(std::make_unique<Side>("sm"));
    ASSERT_NE(hub.connect(*peers.back()), nullptr);
  }
  // A segment in each direction; a connection manager may still hold the descriptor that it has just mapped.
  EXPECT_TRUE(pump([&] { return memory_of_files("opal-sm-segment") <= 2U * 10 * 4096; }, hub))
      << memory_of_files("opal-sm-segment");
  btl::Endpoint& active = *hub.connect(*peers[0]);
  exchange(active, hub, *peers[0], 100);
  const std::size_t of_active = Config{}.fbox_size.bytes + 64 * 1024;
  EXPECT_LE(memory_of_files("opal-sm-segment"), 2U * 10 * 4096 + of_active) << "memory follows active peers";
}

TEST(SmSingleCopy, IsUsedWhereTheProbeWorkedAndSaysSo) {
  Side a{"sm"};
  Side b{"sm"};
  btl::Endpoint& route = *a.connect(b);
  if (!route.one_sided()) GTEST_SKIP() << "not allowed here: " << route.describe();
  EXPECT_NE(route.describe().find("cma: probe copied 4096 bytes"), std::string::npos) << route.describe();
  std::vector<std::byte> region(100'000);
  const auto handle = b.module().register_memory(region.data(), region.size(), Rights::all);
  const auto bytes = pattern(50'000, 1);
  CountedCompletion completion;
  EXPECT_EQ(a.module().put(route, bytes.data(), nullptr, reinterpret_cast<std::uint64_t>(region.data()) + 7, *handle,
                           bytes.size(), completion),
            Post::done)
      << "at once and without the target";
  EXPECT_EQ(std::memcmp(region.data() + 7, bytes.data(), bytes.size()), 0);
}

TEST(SmSingleCopy, SwitchedOffPutAndGetGoThroughMessages) {
  Side a{"sm", with("btl_sm_single_copy", "none")};
  Side b{"sm"};
  btl::Endpoint& route = *a.connect(b);
  EXPECT_FALSE(route.one_sided());
  EXPECT_NE(route.describe().find("btl_sm_single_copy is none"), std::string::npos) << route.describe();
  std::vector<std::byte> region(200'000);
  const auto handle = b.module().register_memory(region.data(), region.size(), Rights::all);
  const auto bytes = pattern(150'000, 1);
  std::vector<std::byte> back(bytes.size());
  const auto remote = reinterpret_cast<std::uint64_t>(region.data()) + 11;
  CountedCompletion put;
  ASSERT_EQ(a.module().put(route, bytes.data(), nullptr, remote, *handle, bytes.size(), put), Post::queued);
  ASSERT_TRUE(pump([&] { return put.calls == 1; }, a, b));
  EXPECT_EQ(std::memcmp(region.data() + 11, bytes.data(), bytes.size()), 0);
  CountedCompletion get;
  ASSERT_EQ(a.module().get(route, back.data(), nullptr, remote, *handle, back.size(), get), Post::queued);
  ASSERT_TRUE(pump([&] { return get.calls == 1; }, a, b));
  EXPECT_EQ(back, bytes);
}

/// Each side works only when its doorbell rings.
TEST(SmSleep, BothSidesSleepWhileMessagesOfAPutWaitForRoom) {
  Side a{"sm", with("btl_sm_single_copy", "none")};
  Side b{"sm", with("btl_sm_single_copy", "none")};
  btl::Endpoint& route = *a.connect(b);
  std::vector<std::byte> region(20'000'000);
  const auto bytes = pattern(region.size(), 3);
  const auto handle = b.module().register_memory(region.data(), region.size(), Rights::all);
  CountedCompletion put;
  ASSERT_EQ(a.module().put(route, bytes.data(), nullptr, reinterpret_cast<std::uint64_t>(region.data()), *handle,
                           bytes.size(), put),
            Post::queued);
  for (int i = 0; i < 1000; ++i) a.module().progress(64);
  EXPECT_TRUE(a.module().arm()) << "there is no room, and the peer tells when there is";
  const auto sleep_or_work = [](Side& side) {
    if (side.module().arm()) {
      pollfd fd{side.module().wait_fd(), POLLIN, 0};
      if (::poll(&fd, 1, 0) == 0) return false;
    }
    side.module().progress(64);
    return true;
  };
  bool stuck = false;
  while (put.calls == 0 && !stuck) {
    const bool first = sleep_or_work(a);
    const bool second = sleep_or_work(b);
    stuck = !first && !second;
  }
  ASSERT_FALSE(stuck) << "both sleep and the put is not over";
  EXPECT_TRUE(put.ok());
  EXPECT_EQ(region, bytes);
}

/// As a daemon does that closes all descriptors it has inherited. The transports are destroyed afterwards as ever.
TEST(SmSleep, AProgramThatClosesAllDescriptorsLosesItsPeersAndDoesNotSpin) {
  EXPECT_EQ(test::in_child([] {
              Side own{"sm"};
              Side other{"sm"};
              btl::Endpoint& route = *own.connect(other);
              ::syscall(SYS_close_range, 3, 1023, 0);  // not close(), which ThreadSanitizer watches: others use them
              for (int i = 0; i < 1000 && own.failures.empty(); ++i) {
                (void)own.module().arm();
                own.module().progress(64);
              }
              if (own.failures.size() != 1 || !route.dead()) return 1;
              return own.failures[0].why.os_errno == EBADF ? 0 : 2;
            }),
            0);
}

TEST(SmConfig, SizesThatDoNotFitTogetherAreRefused) {
  Side host{"sm"};
  Config small;
  small.segment_size = 256_KiB;
  small.max_send = 128_KiB;
  EXPECT_EQ(Module::open(host.module().parameters(), small).error().code, Errc::invalid_argument);
  Config eager;
  eager.eager = eager.max_send;
  EXPECT_EQ(Module::open(host.module().parameters(), eager).error().code, Errc::invalid_argument);
  Config fragments;
  fragments.small_fragment = fragments.max_send;
  EXPECT_EQ(Module::open(host.module().parameters(), fragments).error().code, Errc::invalid_argument);
}

TEST(SmConnect, FromManyThreadsAtOnceInBothDirectionsEveryPairEndsWithOneConnection) {
  for (int round = 0; round < 10; ++round) {
    constexpr std::size_t kSides = 4;
    std::vector<std::unique_ptr<Side>> sides;
    for (std::size_t i = 0; i < kSides; ++i) sides.push_back(std::make_unique<Side>("sm"));
    std::vector<std::vector<std::byte>> blobs;
    for (const auto& side : sides) blobs.push_back(side->blob());
    std::atomic<std::size_t> done{0};
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kSides; ++i) {
      threads.emplace_back([&, i] {
        Side& own = *sides[i];
        for (std::size_t step = 1; step < kSides; ++step) {
          const std::size_t other = (i + step) % kSides;
          btl::Endpoint* route = own.connect(blobs[other]);
          ASSERT_EQ(test::send(*route, bytes_of(i), {}, own), Post::done);
        }
        ASSERT_TRUE(pump([&] { return own.received.size() == kSides - 1; }, own));
        ++done;
        ASSERT_TRUE(pump([&] { return done == kSides; }, own));  // nobody leaves while others still talk
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& side : sides) {
      EXPECT_TRUE(side->failures.empty());
      EXPECT_EQ(side->received.size(), kSides - 1);
    }
  }
}

}  // namespace
}  // namespace opal::btl::sm
