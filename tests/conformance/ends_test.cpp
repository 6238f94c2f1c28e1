// SPDX-License-Identifier: Apache-2.0
// The end of an endpoint over every transport: what is delivered, what completes, what is reported, in which order.
#include <cstring>

#include "tests/conformance/side.hpp"

namespace opal::test {
namespace {

class Ends : public Conformance {
 protected:
  /// Connects both ways, so that each side has an endpoint.
  void SetUp() override {
    Conformance::SetUp();
    ASSERT_EQ(send_to_b({}, {}), Post::done);
    ASSERT_TRUE(pump_both([&] { return b().received.size() == 1; }));
    ASSERT_EQ(b().accepted.size(), 1U);
  }
  /// Posts gets of 4 MiB of b.  Some transports finish them at once; the others answer `queued`.
  void post_gets() {
    const MemoryHandle handle = *b().module().register_memory(region.data(), region.size(), Rights::all);
    for (CountedCompletion& completion : gets) {
      Post post = Post::again;
      ASSERT_TRUE(pump_both([&] {
        post = a().module().get(to_b(), destination.data(), nullptr, reinterpret_cast<std::uint64_t>(region.data()),
                                handle, region.size(), completion);
        return post != Post::again;
      }));
      ASSERT_NE(post, Post::failed);
      if (post == Post::queued) ++queued;
    }
  }
  [[nodiscard]] int completed() const {
    int calls = 0;
    for (const CountedCompletion& completion : gets) calls += completion.calls;
    return calls;
  }

  std::vector<std::byte> region = pattern(4 << 20, 1);
  std::vector<std::byte> destination = std::vector<std::byte>(region.size());
  std::vector<CountedCompletion> gets = std::vector<CountedCompletion>(4);
  int queued = 0;
};
OPAL_CONFORMANCE_SUITE(Ends, joining_transports);

TEST_P(Ends, MessagesPostedBeforeADisconnectArriveBeforeItsReport) {
  for (const std::size_t count : {0U, 1U, 300U}) {
    Side left{GetParam()};
    Side right{GetParam()};
    std::size_t at_report = 0;
    right.after_failed = [&](btl::Endpoint&) { at_report = right.received.size(); };
    btl::Endpoint* const route = left.connect(right);
    ASSERT_EQ(send(*route, {}, {}, left, right), Post::done);
    ASSERT_TRUE(pump([&] { return right.received.size() == 1; }, left, right));
    for (std::uint32_t i = 0; i < count; ++i) ASSERT_EQ(send(*route, bytes_of(i), {}, left, right), Post::done);
    left.module().disconnect(*route);
    ASSERT_TRUE(pump([&] { return !right.failures.empty(); }, left, right));
    EXPECT_EQ(at_report, 1 + count);
    EXPECT_EQ(right.failures[0].endpoint, right.accepted.at(0));
    EXPECT_EQ(right.failures[0].why.code, Errc::peer_gone);
    EXPECT_TRUE(left.failures.empty()) << "a disconnect is not reported to the side that asked for it";
  }
}

TEST_P(Ends, MessagesPostedBeforeTheModuleEndsArriveBeforeTheReport) {
  for (std::uint32_t i = 0; i < 20; ++i) ASSERT_EQ(send_to_b(bytes_of(i), {}), Post::done);
  std::size_t at_report = 0;
  b().after_failed = [&](btl::Endpoint&) { at_report = b().received.size(); };
  a_.reset();
  ASSERT_TRUE(pump([&] { return b().failures.size() == 1; }, b()));
  EXPECT_EQ(at_report, 21U);
}

TEST_P(Ends, OperationsPendingOnAPeerThatEndsCompleteBeforeItsReport) {
  post_gets();
  int at_report = -1;
  a().after_failed = [&](btl::Endpoint&) { at_report = completed(); };
  b_.reset();
  ASSERT_TRUE(pump([&] { return !a().failures.empty(); }, a()));
  EXPECT_EQ(at_report, queued);
  for (int i = 0; i < 1000; ++i) a().module().progress(64);
  EXPECT_EQ(completed(), queued) << "each completes once";
  EXPECT_EQ(a().failures.size(), 1U) << "one report of one endpoint";
}

TEST_P(Ends, TheEndOfAModuleCompletesWhatIsPendingWithCanceled) {
  post_gets();
  const int before = completed();
  a_.reset();
  EXPECT_EQ(completed(), queued);
  int canceled = 0;
  for (const CountedCompletion& completion : gets) canceled += completion.error.code == Errc::canceled ? 1 : 0;
  EXPECT_EQ(canceled, queued - before);
}

TEST_P(Ends, APeerThatComesBackIsAcceptedAfterTheReportOfItsEnd) {
  constexpr std::size_t kRounds = 100;
  const btl::Endpoint* current = b().accepted.at(0);
  int misplaced = 0;
  b().after_accepted = [&](btl::Endpoint& endpoint) {
    if (current != nullptr) ++misplaced;
    current = &endpoint;
  };
  b().handler = [&](btl::Delivery& delivery) {
    if (current != &delivery.from) ++misplaced;
  };
  b().after_failed = [&](btl::Endpoint& endpoint) {
    if (current != &endpoint) ++misplaced;
    current = nullptr;
  };
  a().module().disconnect(to_b());
  for (std::uint32_t round = 0; round < kRounds; ++round) {  // b may see the end and the new connection at once
    btl::Endpoint* const route = a().connect(b());
    ASSERT_EQ(send(*route, bytes_of(round), {}, a(), b()), Post::done);
    a().module().disconnect(*route);
  }
  ASSERT_TRUE(pump_both([&] { return b().failures.size() == kRounds + 1; }));
  EXPECT_EQ(b().accepted.size(), kRounds + 1);
  EXPECT_EQ(misplaced, 0) << "accepted, then its messages, then failed, then accepted anew";
  EXPECT_TRUE(a().failures.empty());
  for (btl::Endpoint* const endpoint : b().accepted) b().module().disconnect(*endpoint);
}

TEST_P(Ends, ADeadEndpointRefusesPostsAndKeepsItsReasonUntilItIsDisconnected) {
  const MemoryHandle handle = *b().module().register_memory(region.data(), region.size(), Rights::all);
  btl::Fragment fragment;
  ASSERT_TRUE(pump_both([&] { return static_cast<bool>(fragment = a().module().alloc(to_b(), 100)); }));
  b_.reset();
  ASSERT_TRUE(pump([&] { return !a().failures.empty(); }, a()));
  EXPECT_TRUE(to_b().dead());
  EXPECT_EQ(a().failures[0].endpoint, &to_b());
  EXPECT_EQ(to_b().error().code, a().failures[0].why.code);
  EXPECT_NE(to_b().error().code, Errc{});
  EXPECT_FALSE(to_b().describe().empty());
  EXPECT_EQ(a().module().send_inline(to_b(), kTag, {}, {}), Post::failed);
  EXPECT_FALSE(a().module().alloc(to_b(), 10));
  EXPECT_EQ(to_b().fragments(), 1U);
  EXPECT_EQ(a().module().send(fragment, kTag), Post::failed) << "a fragment may outlive the peer";
  EXPECT_FALSE(fragment);
  EXPECT_EQ(to_b().fragments(), 0U);
  CountedCompletion completion;
  EXPECT_EQ(a().module().get(to_b(), destination.data(), nullptr, reinterpret_cast<std::uint64_t>(region.data()),
                             handle, region.size(), completion),
            Post::failed);
  EXPECT_FALSE(completion.ok());
  completion.error = {};
  EXPECT_EQ(a().module().flush(&to_b(), completion), Post::failed);
  EXPECT_FALSE(completion.ok());
  EXPECT_EQ(completion.calls, 0);
  a().module().disconnect(to_b());
}

TEST_P(Ends, APeerIsConnectedAnewWhileItsDeadEndpointIsStillThere) {
  b().module().disconnect(*b().accepted[0]);
  ASSERT_TRUE(pump_both([&] { return !a().failures.empty(); }));
  btl::Endpoint* const fresh = a().connect(b());
  ASSERT_NE(fresh, &to_b());
  EXPECT_FALSE(fresh->dead());
  ASSERT_EQ(send(*fresh, pattern(9, 1), {}, a(), b()), Post::done);
  ASSERT_TRUE(pump_both([&] { return b().received.size() == 2; }));
  a().module().disconnect(to_b());
  ASSERT_EQ(send(*fresh, pattern(9, 2), {}, a(), b()), Post::done);
  ASSERT_TRUE(pump_both([&] { return b().received.size() == 3; }));
  EXPECT_EQ(a().failures.size(), 1U);
}

TEST_P(Ends, AnAcceptedEndpointCanBeUsedAtOnce) {
  Side server{GetParam()};
  Side client{GetParam()};
  Post first = Post::failed;
  server.after_accepted = [&](btl::Endpoint& endpoint) {
    first = server.module().send_inline(endpoint, kTag, pattern(5, 1), {});
  };
  btl::Endpoint* const route = client.connect(server);
  ASSERT_EQ(send(*route, {}, {}, client, server), Post::done);
  ASSERT_TRUE(pump([&] { return server.accepted.size() == 1; }, client, server));
  ASSERT_NE(first, Post::failed);
  if (first == Post::again) {
    ASSERT_EQ(send(*server.accepted[0], pattern(5, 1), {}, client, server), Post::done);
  }
  ASSERT_TRUE(pump([&] { return client.received.size() == 1; }, client, server));
  EXPECT_EQ(client.received[0], pattern(5, 1));
}

}  // namespace
}  // namespace opal::test
