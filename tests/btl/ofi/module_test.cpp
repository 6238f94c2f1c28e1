// SPDX-License-Identifier: Apache-2.0
// The ofi transport over a provider that needs no device: what the conformance suite does not reach.
#include "opal/btl/ofi/module.hpp"

#include <gmock/gmock.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <random>

#include "opal/rcache/cache.hpp"
#include "tests/conformance/side.hpp"
#include "tests/harness/child.hpp"

namespace opal::test {
namespace {

using ::testing::HasSubstr;

btl::ofi::Config config() {
  btl::ofi::Config config;
  const char* const provider = std::getenv("OPAL_BTL_OFI_PROVIDER");  // NOLINT(concurrency-mt-unsafe)
  config.provider = provider != nullptr ? provider : "tcp;ofi_rxm";
  if (provider == nullptr) config.domain = "lo";
  return config;
}

Side::Open opener(const btl::ofi::Config& config) {
  return [=](const btl::ModuleParameters& parameters) -> Result<std::unique_ptr<btl::Module>> {
    OPAL_TRY_ASSIGN(auto module, btl::ofi::Module::open(parameters, config));
    return std::unique_ptr<btl::Module>{std::move(module)};
  };
}

class OfiModule : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto present = btl::ofi::provider_present(config()); !present) {
      GTEST_SKIP() << "needs libfabric: " << to_string(present.error());
    }
  }
};

TEST_F(OfiModule, AProviderThatIsNotThereIsRefusedWithTheOnesThatAre) {
  btl::ofi::Config wrong = config();
  wrong.provider = "tpc";
  const auto refused = btl::ofi::provider_present(wrong);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().where, HasSubstr("no provider \"tpc\""));
  EXPECT_THAT(refused.error().where, HasSubstr(config().provider));
}

TEST_F(OfiModule, PingsNoticeAPeerThatHasDied) {
  Child child{[](Channel& parent) -> int {
    Side side{opener(config())};
    parent.send(side.blob());
    for (;;) side.module().progress(64);
  }};
  btl::ofi::Config settings = config();
  settings.settings.watch_processes = false;
  settings.settings.ping_interval = std::chrono::milliseconds{20};
  settings.settings.connect_timeout = std::chrono::milliseconds{2'000};
  Side side{opener(settings)};
  btl::Endpoint* const route = side.connect(child.channel().receive());
  ASSERT_EQ(send(*route, pattern(8, 1), {}, side), Post::done);
  child.kill();
  ASSERT_TRUE(pump([&] { return side.failures.size() == 1; }, side));
  EXPECT_EQ(side.failures[0].endpoint, route);
  EXPECT_NE(side.failures[0].why.os_errno, 0) << "a failure, not a disconnect";
}

TEST_F(OfiModule, ASilentPeerLives) {
  btl::ofi::Config settings = config();
  settings.settings.ping_interval = std::chrono::milliseconds{5};
  Side a{opener(settings)};
  Side b{opener(settings)};
  btl::Endpoint* const route = a.connect(b);
  ASSERT_EQ(send(*route, pattern(8, 1), {}, a, b), Post::done);
  ASSERT_TRUE(pump([&] { return b.received.size() == 1; }, a, b));
  const Deadline deadline = Deadline::after(std::chrono::milliseconds{300});
  while (!deadline.expired()) a.module().progress(64);  // b does nothing meanwhile
  ASSERT_EQ(send(*route, pattern(8, 1), {}, a, b), Post::done);
  ASSERT_TRUE(pump([&] { return b.received.size() == 2; }, a, b));
  EXPECT_TRUE(a.failures.empty());
  EXPECT_TRUE(b.failures.empty());
}

/// Connects `a` to `b` until `b` has handled the Hello; `a` has not seen the answer.
btl::Endpoint* connect_half(Side& a, Side& b) {
  btl::Endpoint* const route = a.connect(b);
  const Deadline deadline = Deadline::after(std::chrono::seconds{120});
  while (b.module().progress(64) == 0 && !deadline.expired()) a.module().progress(64);
  EXPECT_FALSE(deadline.expired());
  return route;
}

/// A message of `a` arrives, or `a` learns that it is lost.
void expect_no_silent_loss(btl::Endpoint& route, Side& a, Side& b) {
  (void)send(route, pattern(8, 1), {}, a, b);
  EXPECT_TRUE(pump([&] { return b.received.size() == 1 || a.failures.size() == 1; }, a, b));
}

TEST_F(OfiModule, AConnectorThatComputesLongerThanTheHandshakeMayTakeLosesNoMessageSilently) {
  btl::ofi::Config settings = config();
  settings.settings.confirm_timeout = std::chrono::milliseconds{20};
  Side a{opener(config())};
  Side b{opener(settings)};
  btl::Endpoint* const route = connect_half(a, b);
  const Deadline deadline = Deadline::after(std::chrono::milliseconds{300});
  while (!deadline.expired()) b.module().progress(64);  // a does nothing meanwhile
  expect_no_silent_loss(*route, a, b);
}

TEST_F(OfiModule, AConnectorLearnsOfADisconnectBeforeItsConfirm) {
  Side a{opener(config())};
  Side b{opener(config())};
  btl::Endpoint* const route = connect_half(a, b);
  b.module().disconnect(*b.connect(a));
  expect_no_silent_loss(*route, a, b);
}

TEST_F(OfiModule, PingsNoticeThatTheConnectorHasDiedBeforeItsConfirm) {
  Child child{[](Channel& parent) -> int {
    Side side{opener(config())};
    parent.send(side.blob());
    side.connect(parent.receive());
    while (parent.expect("step")) {
      side.module().progress(64);
      parent.send("done");
    }
    return 0;
  }};
  btl::ofi::Config settings = config();
  settings.settings.watch_processes = false;
  settings.settings.ping_interval = std::chrono::milliseconds{20};
  settings.settings.connect_timeout = std::chrono::milliseconds{2'000};
  Side side{opener(settings)};
  const std::vector<std::byte> peer = child.channel().receive();
  child.channel().send(side.blob());
  while (side.module().progress(64) == 0) {  // until it has handled the Hello
    child.channel().send("step");
    ASSERT_TRUE(child.channel().expect("done"));
  }
  btl::Endpoint* const route = side.connect(peer);
  child.kill();
  ASSERT_TRUE(pump([&] { return side.failures.size() == 1; }, side));
  EXPECT_EQ(side.failures[0].endpoint, route);
  EXPECT_EQ(side.failures[0].why.code, Errc::peer_gone) << "not a time-out";
}

btl::rdm::Endpoint& rdm_endpoint(btl::Endpoint& route) { return static_cast<btl::rdm::Endpoint&>(route); }

TEST_F(OfiModule, APeerLearnsOfAFailureThatOnlyTheOtherSideHasSeen) {
  Side a{opener(config())};
  Side b{opener(config())};
  btl::Endpoint* const route = a.connect(b);
  ASSERT_EQ(send(*route, pattern(8, 1), {}, a, b), Post::done);
  ASSERT_TRUE(pump([&] { return b.received.size() == 1; }, a, b));
  rdm_endpoint(*route).break_off({Errc::peer_gone, EIO, "a failed send"});
  ASSERT_TRUE(pump([&] { return a.failures.size() == 1 && b.failures.size() == 1; }, a, b));
  EXPECT_EQ(a.failures[0].why.os_errno, EIO);
}

TEST_F(OfiModule, ANewConnectionOfAPeerTakesThePlaceOfOneThatOnlyThePeerHasLost) {
  btl::ofi::Config settings = config();
  settings.settings.superseded_timeout = std::chrono::milliseconds{100};
  Side a{opener(settings)};
  Side b{opener(settings)};
  btl::Endpoint* const lost = a.connect(b);
  ASSERT_EQ(send(*lost, pattern(8, 1), {}, a, b), Post::done);
  ASSERT_TRUE(pump([&] { return b.received.size() == 1; }, a, b));
  b.after_accepted = [&](btl::Endpoint&) { EXPECT_EQ(b.failures.size(), 1U) << "accepted before the report"; };
  rdm_endpoint(*lost).end({Errc::peer_gone, EIO, "a failure"});  // without a goodbye
  ASSERT_TRUE(pump([&] { return a.failures.size() == 1; }, a));
  a.module().disconnect(*lost);
  btl::Endpoint* const route = a.connect(b);
  ASSERT_EQ(send(*route, pattern(8, 2), {}, a, b), Post::done);
  ASSERT_TRUE(pump([&] { return b.received.size() == 2; }, a, b));
  ASSERT_EQ(b.failures.size(), 1U);
  EXPECT_EQ(b.failures[0].why.code, Errc::peer_gone);
  EXPECT_EQ(b.accepted.size(), 2U);
  EXPECT_EQ(a.failures.size(), 1U);
}

TEST_F(OfiModule, ADeadPeerFailsWhileMessagesOfOthersNeverPause) {
  Child child{[](Channel& parent) -> int {
    Side side{opener(config())};
    parent.send(side.blob());
    for (;;) side.module().progress(64);
  }};
  Side side{opener(config())};
  std::array<std::unique_ptr<Side>, 2> others{std::make_unique<Side>(opener(config())),
                                              std::make_unique<Side>(opener(config()))};
  std::array<btl::Endpoint*, 2> routes{others[0]->connect(side), others[1]->connect(side)};
  btl::Endpoint* const route = side.connect(child.channel().receive());
  ASSERT_EQ(send(*route, pattern(8, 1), {}, side), Post::done);
  const auto fill = [&] {  // until each has sent all that its credits allow
    for (std::size_t i = 0; i < others.size(); ++i) {
      others[i]->module().progress(64);
      while (others[i]->module().send_inline(*routes[i], kTag, pattern(8, 2), {}) == Post::done) {
      }
      others[i]->module().progress(64);
    }
  };
  ASSERT_TRUE(pump([&] { return fill(), side.received.size() > 200; }, side));
  child.kill();
  const Deadline deadline = Deadline::after(std::chrono::seconds{20});
  while (side.failures.empty() && !deadline.expired()) {
    side.module().progress(1);
    fill();
  }
  ASSERT_EQ(side.failures.size(), 1U);
  EXPECT_EQ(side.failures[0].endpoint, route);
}

/// A libfabric endpoint that knows the address of a module, and nothing else.
class Outsider {
 public:
  explicit Outsider(Side& target)
      : device_(std::move(*btl::ofi::Device::open(config()))), one_sided_(std::move(*device_.open_endpoint())) {
    EXPECT_TRUE(btl::ofi::Device::enable(one_sided_));
    const auto address = btl::rdm::decode(target.module().address(), btl::ofi::kMagic);
    EXPECT_EQ(fi_av_insert(device_.addresses(), address->name.data(), 1, &to_, 0, nullptr), 1);
  }
  void say(ByteSpan bytes, Side& target) {
    ASSERT_TRUE(pump(
        [&] {
          fi_cq_data_entry entry{};
          (void)fi_cq_read(one_sided_.completions.get(), &entry, 1);
          return fi_inject(one_sided_.endpoint.get(), bytes.data(), bytes.size(), to_) != -FI_EAGAIN;
        },
        target));
  }

 private:
  btl::ofi::Device device_;
  btl::ofi::FabricEndpoint one_sided_;
  fi_addr_t to_ = FI_ADDR_UNSPEC;
};

TEST_F(OfiModule, MessagesOfAnOutsiderAreDroppedAndDisturbNoPeer) {
  Side server{opener(config()), false, *Secret::from_text("the secret of this job")};
  Side client{opener(config()), false, *Secret::from_text("the secret of this job")};
  btl::Endpoint* const route = client.connect(server);
  ASSERT_EQ(send(*route, pattern(8, 1), {}, client, server), Post::done);
  ASSERT_TRUE(pump([&] { return server.received.size() == 1; }, client, server));
  Outsider outsider{server};
  namespace wire = btl::rdm::wire;
  std::mt19937 random{5};
  for (std::uint32_t round = 0; round < 200; ++round) {
    std::vector<std::byte> message = pattern(random() % 300, round);
    if (round % 3 != 0 && message.size() >= sizeof(wire::Frame)) {  // frames of every kind, to slots that exist
      const wire::Frame frame{round % 2 == 0 ? round % 4 : wire::kNoSlot,
                              static_cast<std::uint32_t>(random()),
                              round % 5 == 0 ? 0xffffffffU : static_cast<std::uint32_t>(message.size() - sizeof frame),
                              kTag,
                              static_cast<wire::Kind>(round % 9),
                              9};
      std::memcpy(message.data(), &frame, sizeof frame);
    }
    outsider.say(message, server);
  }
  for (int i = 0; i < 1000; ++i) server.module().progress(64);
  EXPECT_EQ(server.received.size(), 1U);
  EXPECT_EQ(server.accepted.size(), 1U);
  EXPECT_TRUE(server.failures.empty());
  ASSERT_EQ(send(*route, pattern(8, 1), {}, client, server), Post::done);
  ASSERT_TRUE(pump([&] { return server.received.size() == 2; }, client, server));
}

/// Puts and gets by the provider.
class OfiNative : public OfiModule {
 protected:
  static btl::ofi::Config native(bool register_local) {
    btl::ofi::Config settings = config();
    settings.rma = "native";
    settings.register_local = register_local;
    settings.max_request = 64_KiB;
    return settings;
  }
  static Error finish(const std::function<Post(Completion&)>& operation, Side& a, Side& b) {
    CountedCompletion completion;
    Post post = Post::again;
    EXPECT_TRUE(pump([&] { return (post = operation(completion)) != Post::again; }, a, b));
    if (post == Post::queued) {
      EXPECT_TRUE(pump([&] { return completion.calls == 1; }, a, b));
    }
    return completion.error;
  }
};

TEST_F(OfiNative, LocalBuffersAreRegisteredPieceByPieceWhereTheProviderNeedsIt) {
  for (const bool registered : {false, true}) {
    Side a{opener(native(registered))};
    Side b{opener(native(registered))};
    btl::Endpoint* const route = a.connect(b);
    ASSERT_TRUE(a.module().attributes().own_handles) << "the provider has FI_RMA";
    EXPECT_TRUE(route->one_sided());
    const auto source = pattern(5'000'000, 1);
    std::vector<std::byte> region(source.size());
    std::vector<std::byte> back(source.size());
    const MemoryHandle remote = *b.module().register_memory(region.data(), region.size(), Rights::all);
    const MemoryHandle local = *a.module().register_memory(back.data(), back.size(), Rights::none);
    const auto address = reinterpret_cast<std::uint64_t>(region.data());
    EXPECT_EQ(finish(
                  [&](Completion& completion) {
                    return a.module().put(*route, source.data(), nullptr, address, remote, source.size(), completion);
                  },
                  a, b)
                  .code,
              Errc{});
    EXPECT_EQ(region, source);
    EXPECT_EQ(finish(
                  [&](Completion& completion) {
                    return a.module().get(*route, back.data(), &local, address, remote, back.size(), completion);
                  },
                  a, b)
                  .code,
              Errc{});
    EXPECT_EQ(back, source);
    EXPECT_TRUE(b.module().deregister_memory(remote));
    EXPECT_TRUE(a.module().deregister_memory(local));
  }
}

TEST_F(OfiNative, ADisconnectWithOperationsInFlightLeavesThoseOfOtherPeers) {
  Side a{opener(native(false))};
  Side b{opener(native(false))};
  Side c{opener(native(false))};
  btl::Endpoint* const to_b = a.connect(b);
  btl::Endpoint* const to_c = a.connect(c);
  const auto region = pattern(4 << 20, 1);
  std::vector<std::byte> into(region.size());
  std::vector<std::byte> other(region.size());
  auto* const bytes = const_cast<std::byte*>(region.data());  // only read
  const MemoryHandle of_b = *b.module().register_memory(bytes, region.size(), Rights::remote_read);
  const MemoryHandle of_c = *c.module().register_memory(bytes, region.size(), Rights::remote_read);
  const auto address = reinterpret_cast<std::uint64_t>(bytes);
  CountedCompletion from_b;
  CountedCompletion from_c;
  const auto posted = [&](btl::Endpoint& route, std::byte* to, const MemoryHandle& handle, Completion& completion) {
    Post post = Post::again;
    EXPECT_TRUE(pump(
        [&] {
          post = a.module().get(route, to, nullptr, address, handle, region.size(), completion);
          return post != Post::again;
        },
        a, b, c));
    return post;
  };
  ASSERT_EQ(posted(*to_b, into.data(), of_b, from_b), Post::queued);
  ASSERT_EQ(posted(*to_c, other.data(), of_c, from_c), Post::queued);
  for (int i = 0; i < 3; ++i) a.module().progress(64), b.module().progress(64);
  const int before = from_b.calls;
  a.module().disconnect(*to_b);
  EXPECT_EQ(from_b.calls, 1);
  if (before == 0) {
    EXPECT_EQ(from_b.error.code, Errc::canceled);
  }
  const auto snapshot = into;
  ASSERT_TRUE(pump([&] { return from_c.calls == 1; }, a, b, c));
  EXPECT_TRUE(from_c.ok());
  EXPECT_EQ(other, region);
  EXPECT_EQ(into, snapshot) << "nothing is written after the completion";
}

}  // namespace
}  // namespace opal::test
