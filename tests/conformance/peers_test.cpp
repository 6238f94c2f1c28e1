// SPDX-License-Identifier: Apache-2.0
// Peers over every transport: connecting, removing and adding again, bad addresses, waiting, no leaks.
#include <poll.h>

#include <algorithm>
#include <fstream>

#include "tests/conformance/side.hpp"
#include "tests/harness/process.hpp"

namespace opal::test {
namespace {

class Peers : public Conformance {};
OPAL_CONFORMANCE_SUITE(Peers, usable_transports);

/// What needs a second side.
class PeersOfTwo : public Conformance {};
OPAL_CONFORMANCE_SUITE(PeersOfTwo, joining_transports);

std::size_t mappings() {
  std::ifstream maps{"/proc/self/maps"};
  return static_cast<std::size_t>(
      std::count(std::istreambuf_iterator<char>{maps}, std::istreambuf_iterator<char>{}, '\n'));
}

TEST_P(Peers, ConnectingTwiceGivesTheSameEndpoint) {
  EXPECT_EQ(a().connect(b()), &to_b());
  EXPECT_EQ(to_b().peer(), b().id());
  EXPECT_FALSE(to_b().describe().empty());
}

TEST_P(Peers, TheLimitsAgreeWithEachOther) {
  const btl::Attributes& attributes = a().module().attributes();
  EXPECT_EQ(attributes.transport, GetParam());
  EXPECT_GE(attributes.max_send, 512U) << "the messages of the emulation fit";
  EXPECT_LE(attributes.eager, attributes.max_send);
}

TEST_P(PeersOfTwo, TheAddressStaysWhileConnectionsComeAndGo) {
  const ByteSpan address = b().module().address();
  const std::vector<std::byte> before{address.begin(), address.end()};
  for (std::uint32_t round = 0; round < 3; ++round) {
    btl::Endpoint* const route = a().connect(b());
    ASSERT_EQ(send(*route, bytes_of(round), {}, a(), b()), Post::done);
    ASSERT_TRUE(pump_both([&] { return b().received.size() == round + 1; }));
    a().module().disconnect(*route);
    EXPECT_EQ(b().module().address().data(), address.data()) << "its bytes are valid as long as the module";
    EXPECT_TRUE(std::equal(address.begin(), address.end(), before.begin(), before.end()));
  }
}

TEST_P(PeersOfTwo, ThePassiveSideLearnsOfThePeerAndAnswersOnTheSameEndpoint) {
  ASSERT_EQ(send_to_b({}, pattern(10, 1)), Post::done);
  ASSERT_TRUE(pump_both([&] { return b().received.size() == 1; }));
  ASSERT_EQ(b().accepted.size(), 1U);
  btl::Endpoint& back = *b().accepted[0];
  EXPECT_EQ(back.peer(), a().id());
  EXPECT_EQ(b().connect(a()), &back);
  ASSERT_EQ(send(back, {}, pattern(20, 2), a(), b()), Post::done);
  ASSERT_TRUE(pump_both([&] { return a().received.size() == 1; }));
  EXPECT_EQ(a().received[0], pattern(20, 2));
  EXPECT_TRUE(a().accepted.empty());
}

TEST_P(PeersOfTwo, BothSidesConnectingAtOnceEndWithOneEndpointEach) {
  for (int round = 0; round < 20; ++round) {
    Side left{GetParam()};
    Side right{GetParam()};
    btl::Endpoint* to_right = left.connect(right);
    btl::Endpoint* to_left = right.connect(left);
    for (std::uint32_t i = 0; i < 20; ++i) {
      ASSERT_EQ(send(*to_right, bytes_of(i), {}, left, right), Post::done);
      ASSERT_EQ(send(*to_left, bytes_of(i), {}, left, right), Post::done);
    }
    ASSERT_TRUE(pump([&] { return left.received.size() == 20 && right.received.size() == 20; }, left, right));
    for (std::uint32_t i = 0; i < 20; ++i) {
      EXPECT_EQ(std::memcmp(left.received[i].data(), &i, sizeof i), 0);
      EXPECT_EQ(std::memcmp(right.received[i].data(), &i, sizeof i), 0);
    }
    EXPECT_TRUE(left.failures.empty());
    EXPECT_TRUE(right.failures.empty());
  }
}

TEST_P(PeersOfTwo, AnEndpointIsRemovedAndAddedAgain) {
  for (std::uint32_t round = 0; round < 10; ++round) {
    btl::Endpoint* route = a().connect(b());
    ASSERT_EQ(send(*route, bytes_of(round), {}, a(), b()), Post::done);
    ASSERT_TRUE(pump_both([&] { return b().received.size() == round + 1; })) << round;
    a().module().disconnect(*route);
    // b's end goes as soon as b hears of it; then b forgets its endpoint too.
    ASSERT_TRUE(pump_both([&] { return b().accepted.back()->dead(); })) << round;
    b().module().disconnect(*b().accepted.back());
  }
}

TEST_P(PeersOfTwo, AThousandConnectionsLeaveNothingBehind) {
  std::size_t descriptors = 0;
  std::size_t maps = 0;
  for (std::uint32_t round = 0; round < 1000; ++round) {
    if (round == 10) {
      descriptors = open_descriptors();
      maps = mappings();
    }
    btl::Endpoint* route = a().connect(b());
    ASSERT_EQ(send(*route, bytes_of(round), {}, a(), b()), Post::done);
    ASSERT_TRUE(pump_both([&] { return b().received.size() == 1; })) << round;
    b().received.clear();
    a().module().disconnect(*route);
    ASSERT_TRUE(pump_both([&] { return b().accepted.back()->dead(); })) << round;
    b().module().disconnect(*b().accepted.back());
  }
  ASSERT_TRUE(pump_both([&] { return open_descriptors() <= descriptors; }))
      << open_descriptors() << " descriptors, were " << descriptors;
  EXPECT_LE(mappings(), maps + 100) << "the heap (or a sanitizer) may grow by a few, not by one per connection";
}

TEST_P(PeersOfTwo, DisconnectCompletesWhatIsPendingWithCanceled) {
  std::vector<std::byte> region(4 << 20);
  auto handle = b().module().register_memory(region.data(), region.size(), Rights::all);
  ASSERT_TRUE(handle);
  std::vector<std::byte> destination(region.size());
  CountedCompletion completion;
  Post post = Post::again;
  ASSERT_TRUE(pump_both([&] {
    post = a().module().get(to_b(), destination.data(), nullptr, reinterpret_cast<std::uint64_t>(region.data()),
                            *handle, region.size(), completion);
    return post != Post::again;
  }));
  a().module().disconnect(to_b());
  EXPECT_EQ(completion.calls, post == Post::queued ? 1 : 0);
  if (post == Post::queued) {
    EXPECT_EQ(completion.error.code, Errc::canceled);
  }
}

TEST_P(PeersOfTwo, AGarbledAddressIsRefusedWithAReason) {
  const ByteSpan good = b().module().address();
  Side fresh{GetParam()};
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(fresh.module().connect(PeerId::random(), good.first(size))) << "truncated to " << size;
  }
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    EXPECT_FALSE(fresh.module().connect(PeerId::random(), pattern(good.size(), seed)));
  }
  EXPECT_FALSE(fresh.module().connect(PeerId::random(), pattern(10'000, 1)));
}

TEST_P(Peers, AnArmedDescriptorBecomesReadableWhenAMessageComes) {
  ASSERT_EQ(send_to_b({}, pattern(8, 1)), Post::done);  // connects
  ASSERT_TRUE(pump_both([&] { return b().received.size() == 1; }));
  for (std::uint32_t round = 2; round < 50; ++round) {
    ASSERT_TRUE(pump_both([&] { return b().module().arm(); }));
    pollfd fd{b().module().wait_fd(), POLLIN, 0};
    ASSERT_EQ(send(to_b(), bytes_of(round), {}, a()), Post::done);
    ASSERT_EQ(::poll(&fd, 1, 20'000), 1) << "the sleeper was not woken in round " << round;
    ASSERT_TRUE(pump([&] { return b().received.size() == round; }, b()));
  }
}

TEST_P(Peers, ProgressThatFindsNothingLeavesTheDescriptorArmed) {
  ASSERT_EQ(send_to_b({}, pattern(8, 1)), Post::done);  // connects
  ASSERT_TRUE(pump_both([&] { return b().received.size() == 1; }));
  for (std::uint32_t round = 2; round < 50; ++round) {
    std::size_t found = 1;
    while (found != 0) {
      ASSERT_TRUE(pump_both([&] { return b().module().arm(); }));
      found = 0;
      for (int i = 0; i < 100; ++i) found += b().module().progress(64);
    }
    pollfd fd{b().module().wait_fd(), POLLIN, 0};
    ASSERT_EQ(send(to_b(), bytes_of(round), {}, a()), Post::done);
    ASSERT_EQ(::poll(&fd, 1, 20'000), 1) << "the sleeper was not woken in round " << round;
    ASSERT_TRUE(pump([&] { return b().received.size() == round; }, b()));
  }
}

TEST_P(PeersOfTwo, ASleeperWhosePutMetBackPressureIsWokenWhenItCanGoOn) {
  std::vector<std::byte> region(16 << 20);
  const auto source = pattern(region.size(), 5);
  const auto handle = b().module().register_memory(region.data(), region.size(), Rights::all);
  ASSERT_TRUE(handle);
  CountedCompletion completion;
  Post post = Post::again;
  ASSERT_TRUE(pump_both([&] {
    post = a().module().put(to_b(), source.data(), nullptr, reinterpret_cast<std::uint64_t>(region.data()), *handle,
                            region.size(), completion);
    return post != Post::again;
  }));
  ASSERT_NE(post, Post::failed);
  while (post == Post::queued && completion.calls == 0) {
    while (a().module().progress(64) != 0) {
    }
    if (completion.calls != 0 || !a().module().arm()) continue;
    pollfd fd{a().module().wait_fd(), POLLIN, 0};
    ASSERT_TRUE(pump([&] { return ::poll(&fd, 1, 0) == 1; }, b())) << "a sleeps, and b's progress does not wake it";
  }
  EXPECT_EQ(region, source);
}

TEST_P(Peers, ArmRefusesWhenThereIsWorkAlready) {
  ASSERT_EQ(send_to_b({}, pattern(8, 1)), Post::done);
  ASSERT_TRUE(pump_both([&] { return b().received.size() == 1; }));
  ASSERT_TRUE(pump_both([&] { return b().module().arm(); }));
  b().module().progress(64);
  ASSERT_EQ(a().module().send_inline(to_b(), kTag, pattern(8, 2), {}), Post::done);
  // Either arm() sees the message, or the descriptor tells of it at once.
  pollfd fd{b().module().wait_fd(), POLLIN, 0};
  EXPECT_TRUE(!b().module().arm() || ::poll(&fd, 1, 20'000) == 1);
}

}  // namespace
}  // namespace opal::test
