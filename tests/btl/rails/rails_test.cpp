// SPDX-License-Identifier: Apache-2.0
// Several devices as one module: what happens when rails break, over one simulated fabric for each.
#include <sys/eventfd.h>

#include <array>
#include <cstring>
#include <deque>
#include <random>

#include "opal/btl/rails/module.hpp"
#include "opal/btl/sim/module.hpp"
#include "tests/btl/sim/world.hpp"

namespace opal::test {
namespace {

constexpr std::size_t kMemory = 4 << 20;

class RailsTest : public ::testing::Test {
 protected:
  void open(std::size_t rails = 2, const std::string& loss = "0", std::uint32_t window = 64) {
    config::Store store;
    store.set("btl_sim_window", std::to_string(window));
    store.set("btl_sim_fabric", name_);
    store.set("btl_sim_rails", std::to_string(rails));
    store.set("btl_sim_loss", loss);
    a_ = std::make_unique<Side>("sim", store);
    b_ = std::make_unique<Side>("sim", store);
    a_->handler = [this](btl::Delivery& delivery) {
      a_->received.emplace_back(delivery.data.begin(), delivery.data.end());
      if (on_answer_) on_answer_();
    };
    b_->handler = [this](btl::Delivery& delivery) {
      std::uint32_t number = 0;
      ASSERT_TRUE(read_object(delivery.data, number));
      ASSERT_EQ(number, handled_++) << "not in order, or not once";
      answer_to_ = &delivery.from;
    };
    handle_ = *b_->module().register_memory(memory_.data(), memory_.size(), Rights::all);
    to_b_ = a_->connect(*b_);
  }

  static btl::sim::Module& rail(Side& side, std::uint32_t index) {
    return static_cast<btl::sim::Module&>(static_cast<btl::rails::Module&>(side.module()).rail(index));
  }
  [[nodiscard]] bool drive(const std::function<bool()>& condition) { return pump(condition, *a_, *b_); }
  /// The fabric of a rail falls apart: no node reaches another one on it.
  void cut(std::uint32_t index) { rail(*b_, index).fabric().set_group(rail(*b_, index).node(), 1); }
  void heal(std::uint32_t index) { rail(*b_, index).fabric().heal(); }
  [[nodiscard]] std::uint64_t transfers(std::uint32_t index) {
    return rail(*a_, index).fabric().statistics().transfers;
  }
  /// Both rails carry something, b knows the way back, and a second has passed, after which new connections are tried.
  void use_both() {
    const auto bytes = pattern(kMemory, 99);
    send_next();
    ASSERT_EQ(finish(true, const_cast<std::byte*>(bytes.data()), 0, kMemory).code, Errc{});
    const std::uint64_t before = now_ns();
    ASSERT_TRUE(drive([&] { return is_connected(*to_b_) && handled_ == sent_ && now_ns() - before > 1'100'000'000; }));
    ASSERT_TRUE(is_connected(*answer_to_));
  }
  static bool is_connected(const btl::Endpoint& endpoint) {
    return endpoint.describe().find("not connected") == std::string::npos;
  }
  /// The peer loses a rail, by a message of its own, and this side does not see it.
  void lose_at_the_peer(std::uint32_t index) {
    cut(index);
    answer(1);
    ASSERT_TRUE(pump([&] { return !is_connected(*answer_to_); }, *b_));
    heal(index);
  }
  void answer(std::uint32_t seed) {
    const auto bytes = pattern(100, seed);
    ASSERT_TRUE(pump([&] { return b_->module().send_inline(*answer_to_, kTag, bytes, {}) == Post::done; }, *b_));
  }
  /// Sends what is not received yet.
  void send_unseen() {
    ASSERT_EQ(a_->module().send_inline(*to_b_, kTag, bytes_of(sent_), pattern(500, sent_)), Post::done);
    ++sent_;
  }
  void send_next() {
    ASSERT_EQ(send(*to_b_, bytes_of(sent_), pattern(500, sent_), *a_, *b_), Post::done)
        << sent_ << " sent, " << handled_ << " handled; " << to_b_->describe() << "; at the peer "
        << answer_to_->describe();
    ++sent_;
  }
  Post post(bool put, std::byte* local, std::size_t offset, std::size_t size, Completion& completion) {
    const auto at = reinterpret_cast<std::uint64_t>(memory_.data()) + offset;
    return put ? a_->module().put(*to_b_, local, nullptr, at, handle_, size, completion)
               : a_->module().get(*to_b_, local, nullptr, at, handle_, size, completion);
  }
  Error finish(bool put, std::byte* local, std::size_t offset, std::size_t size) {
    CountedCompletion completion;
    Post answer = Post::again;
    EXPECT_TRUE(drive([&] { return (answer = post(put, local, offset, size, completion)) != Post::again; }));
    if (answer == Post::queued) {
      EXPECT_TRUE(drive([&] { return completion.calls != 0; }));
    }
    return completion.error;
  }

  std::string name_ = fresh_fabric_name();
  std::vector<std::byte> memory_ = std::vector<std::byte>(kMemory);
  std::unique_ptr<Side> a_;
  std::unique_ptr<Side> b_;
  btl::Endpoint* to_b_ = nullptr;
  btl::Endpoint* answer_to_ = nullptr;
  MemoryHandle handle_;
  std::function<void()> on_answer_;
  std::uint32_t sent_ = 0;
  std::uint32_t handled_ = 0;
};

TEST_F(RailsTest, LargePutsAndGetsTakeEveryRailAndSmallOnesOne) {
  open(3);
  auto bytes = pattern(kMemory, 1);
  std::byte one{1};
  ASSERT_EQ(finish(true, &one, 0, 1).code, Errc{});
  EXPECT_EQ(rail(*a_, 0).fabric().statistics().transfers, 1U);
  EXPECT_EQ(rail(*a_, 1).fabric().statistics().messages, 0U) << "a rail is connected before anything large needs it";
  // The first large one connects the others.
  ASSERT_EQ(finish(true, bytes.data(), 0, kMemory).code, Errc{});
  ASSERT_TRUE(drive([&] { return to_b_->describe().find("not connected") == std::string::npos; }));
  std::vector<std::byte> back(kMemory);
  // How many a rail takes is a matter of how fast it is; a simulated one is as fast as it is looked after.
  for (const bool put : {true, false}) {
    ASSERT_TRUE(drive([&] {
      const std::array<std::uint64_t, 3> before{transfers(0), transfers(1), transfers(2)};
      EXPECT_EQ(finish(put, put ? bytes.data() : back.data(), 0, kMemory).code, Errc{});
      return transfers(0) > before[0] && transfers(1) > before[1] && transfers(2) > before[2];
    })) << to_b_->describe();
  }
  EXPECT_TRUE(memory_ == bytes);
  EXPECT_TRUE(back == bytes);
}

TEST_F(RailsTest, MessagesPutsAndGetsGoOnWhenARailBreaksUnderThemAndEachIsHandledOnce) {
  open();
  while (sent_ < 200) send_next();
  auto bytes = pattern(kMemory, 2);
  ASSERT_EQ(finish(true, bytes.data(), 0, kMemory).code, Errc{});
  CountedCompletion under_way[2];
  std::vector<std::byte> back(kMemory);
  ASSERT_EQ(post(true, bytes.data(), 0, kMemory, under_way[0]), Post::queued);
  ASSERT_EQ(post(false, back.data(), 0, kMemory, under_way[1]), Post::queued);
  for (int i = 0; i < 20; ++i) send_next();
  cut(0);
  while (sent_ < 500) send_next();
  ASSERT_TRUE(drive([&] { return handled_ == sent_ && under_way[0].calls != 0 && under_way[1].calls != 0; }));
  for (const auto& completion : under_way) {
    EXPECT_EQ(completion.calls, 1);
    EXPECT_TRUE(completion.ok()) << to_string(completion.error);
  }
  EXPECT_TRUE(memory_ == bytes);
  EXPECT_TRUE(back == bytes);
  // The other direction has to find out for itself, or was told.
  std::uint32_t answers = 0;
  for (std::uint32_t i = 0; i < 100; ++i, ++answers) {
    ASSERT_EQ(send(*answer_to_, bytes_of(i), {}, *a_, *b_), Post::done);
  }
  ASSERT_TRUE(drive([&] { return a_->received.size() == answers; }));
  EXPECT_TRUE(a_->failures.empty());
  EXPECT_TRUE(b_->failures.empty());
  EXPECT_EQ(b_->accepted.size(), 1U);
}

TEST_F(RailsTest, ARailThatIsBackIsUsedAgain) {
  open();
  auto bytes = pattern(kMemory, 3);
  ASSERT_EQ(finish(true, bytes.data(), 0, kMemory).code, Errc{});
  cut(0);
  ASSERT_EQ(finish(true, bytes.data(), 0, kMemory).code, Errc{});
  while (sent_ < 20) send_next();
  heal(0);
  const std::uint64_t before = rail(*a_, 0).fabric().statistics().transfers;
  ASSERT_TRUE(drive([&] {
    EXPECT_EQ(finish(true, bytes.data(), 0, kMemory).code, Errc{});
    return rail(*a_, 0).fabric().statistics().transfers > before + 4;
  })) << to_b_->describe();
  EXPECT_TRUE(a_->failures.empty());
}

TEST_F(RailsTest, ARailThatOnlyThePeerHasLostIsUsedAgainAndBothSidesMaySleep) {
  open();
  use_both();
  lose_at_the_peer(0);
  // The answer has come by the other rail, and the news.
  ASSERT_TRUE(drive([&] { return a_->received.size() == 1 && a_->module().arm() && b_->module().arm(); }));
  const auto bytes = pattern(kMemory, 6);
  const std::uint64_t before = transfers(0);
  ASSERT_TRUE(drive([&] {
    EXPECT_EQ(finish(true, const_cast<std::byte*>(bytes.data()), 0, kMemory).code, Errc{});
    return transfers(0) > before;
  })) << to_b_->describe();
  EXPECT_TRUE(memory_ == bytes);
  ASSERT_TRUE(drive([&] { return a_->module().arm() && b_->module().arm(); })) << to_b_->describe();
  EXPECT_TRUE(a_->failures.empty());
  EXPECT_TRUE(b_->failures.empty());
}

// The news that the peer has lost a rail and a message whose handler wants that rail again, in one look at the rails.
TEST_F(RailsTest, ARailIsAskedForAgainWhileItsOldConnectionIsBeingGivenUp) {
  open();
  use_both();
  const auto bytes = pattern(kMemory, 7);
  CountedCompletion put;
  Post posted = Post::failed;
  lose_at_the_peer(0);
  // The old answer goes again by the other rail, before the news; this one comes after it.
  on_answer_ = [&, answers = 0]() mutable {
    if (++answers == 2) posted = post(true, const_cast<std::byte*>(bytes.data()), 0, kMemory, put);
  };
  answer(2);
  while (posted == Post::failed) (void)a_->module().progress(64);
  ASSERT_EQ(posted, Post::queued);
  ASSERT_TRUE(drive([&] { return put.calls != 0; }));
  EXPECT_TRUE(put.ok()) << to_string(put.error);
  EXPECT_TRUE(memory_ == bytes);
  for (int i = 0; i < 20; ++i) send_next();
  ASSERT_TRUE(drive([&] { return handled_ == sent_; }));
  EXPECT_TRUE(a_->failures.empty());
  EXPECT_TRUE(b_->failures.empty());
}

TEST_F(RailsTest, APutThatWaitsAtThePeerIsNotCarriedOutAfterALaterOne) {
  open();
  use_both();
  // A handle of the Context's table for each rail: its puts are messages of that rail.
  const MemoryHandle software = *b_->registrations().add(memory_.data(), memory_.size(), Rights::all);
  std::vector<std::byte> parts;
  for (int i = 0; i < 3; ++i) {
    parts.push_back(static_cast<std::byte>(software.bytes().size()));
    parts.insert(parts.end(), software.bytes().begin(), software.bytes().end());
  }
  const MemoryHandle handle = *MemoryHandle::from_bytes(parts);
  const auto put = [&](const std::vector<std::byte>& bytes, Completion& completion) {
    return a_->module().put(*to_b_, bytes.data(), nullptr, reinterpret_cast<std::uint64_t>(memory_.data()), handle,
                            bytes.size(), completion);
  };
  const auto old_bytes = pattern(4000, 8);
  const auto new_bytes = pattern(4000, 9);
  CountedCompletion old_put;
  CountedCompletion new_put;
  ASSERT_EQ(put(old_bytes, old_put), Post::queued);
  // It reaches the peer's first device, whose software does not look.
  const auto in_part = [&](const std::function<bool()>& until) {
    for (int i = 0; i < 20'000 && !until(); ++i) {
      (void)a_->module().progress(64);
      (void)rail(*b_, 1).progress(64);
    }
  };
  const std::uint64_t before = rail(*a_, 0).fabric().statistics().messages;
  in_part([&] { return rail(*a_, 0).fabric().statistics().messages > before; });
  ASSERT_GT(rail(*a_, 0).fabric().statistics().messages, before);
  cut(0);
  send_unseen();  // is lost, which a's device finds out
  bool later = false;
  const auto both_done = [&] {
    if (old_put.calls != 0 && !later) later = put(new_bytes, new_put) == Post::queued;
    return new_put.calls != 0;
  };
  in_part(both_done);
  ASSERT_TRUE(drive(both_done));
  ASSERT_TRUE(drive([&] { return a_->module().arm() && b_->module().arm(); }));  // all that waited has been looked at
  EXPECT_TRUE(old_put.ok() && new_put.ok());
  EXPECT_EQ(std::memcmp(memory_.data(), new_bytes.data(), new_bytes.size()), 0);
}

TEST_F(RailsTest, ADeviceThatIsGoneIsLeftOutOfARegistration) {
  open();
  use_both();
  rail(*b_, 1).fabric().crash(rail(*b_, 1).node(), btl::sim::Crash::host);
  const auto late = b_->module().register_memory(memory_.data(), memory_.size(), Rights::all);
  ASSERT_TRUE(late) << to_string(late.error());
  handle_ = *late;
  const auto bytes = pattern(kMemory, 10);
  ASSERT_EQ(finish(true, const_cast<std::byte*>(bytes.data()), 0, kMemory).code, Errc{});
  EXPECT_TRUE(memory_ == bytes);
  EXPECT_TRUE(b_->module().deregister_memory(*late));
  EXPECT_FALSE(b_->module().deregister_memory(*late));
}

TEST_F(RailsTest, MemoryThatNoStandingRailKnowsIsReachedByMessages) {
  open();
  use_both();
  // The handle as it is when the first device could not register.
  const ByteSpan whole = handle_.bytes();
  const std::size_t first = 1 + static_cast<std::size_t>(whole[0]);
  std::vector<std::byte> parts(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(first));
  parts.push_back(std::byte{0});
  const ByteSpan second = whole.subspan(first + 1 + static_cast<std::size_t>(whole[first]));
  parts.insert(parts.end(), second.begin(), second.end());
  handle_ = *MemoryHandle::from_bytes(parts);
  cut(1);
  const auto bytes = pattern(kMemory, 11);
  ASSERT_EQ(finish(true, const_cast<std::byte*>(bytes.data()), 0, kMemory).code, Errc{});
  EXPECT_TRUE(memory_ == bytes);
  std::vector<std::byte> back(kMemory);
  ASSERT_EQ(finish(false, back.data(), 0, kMemory).code, Errc{});
  EXPECT_TRUE(back == bytes);
}

TEST_F(RailsTest, WhatWasSentBeforeADisconnectArrivesThoughItsRailBreaks) {
  open(2, "0", 4);
  while (sent_ < 25) send_next();
  ASSERT_TRUE(drive([&] { return handled_ == sent_; }));
  cut(0);
  for (int i = 0; i < 4; ++i) send_unseen();
  // a's device gives up, and the other rail takes four at a time of what the peer has not confirmed.
  ASSERT_TRUE(pump([&] { return to_b_->describe().find("0: not connected") != std::string::npos; }, *a_));
  CountedCompletion put;
  const auto bytes = pattern(kMemory, 12);
  const Post posted = post(true, const_cast<std::byte*>(bytes.data()), 0, kMemory, put);
  a_->module().disconnect(*to_b_);
  EXPECT_EQ(put.calls, posted == Post::queued ? 1 : 0);
  ASSERT_TRUE(drive([&] { return handled_ == sent_; })) << handled_ << " of " << sent_;
  ASSERT_TRUE(drive([&] { return !b_->failures.empty(); }));
  EXPECT_EQ(b_->failures.size(), 1U);
  EXPECT_EQ(b_->failures[0].why.code, Errc::peer_gone);
  // And again.
  handled_ = sent_ = 0;
  to_b_ = a_->connect(*b_);
  for (int i = 0; i < 20; ++i) send_next();
  ASSERT_TRUE(drive([&] { return handled_ == sent_; }));
}

TEST_F(RailsTest, APeerThatComesBackAfterALostGoodbyeIsAcceptedAfterTheReportOfItsEnd) {
  open();
  while (sent_ < 20) send_next();
  ASSERT_TRUE(drive([&] { return handled_ == sent_; }));
  btl::Endpoint* const old = answer_to_;
  b_->after_accepted = [&](btl::Endpoint&) { EXPECT_EQ(b_->failures.size(), 1U) << "accepted before the report"; };
  cut(0);
  a_->module().disconnect(*to_b_);
  heal(0);
  handled_ = sent_ = 0;
  to_b_ = a_->connect(*b_);
  // They arrive in one progress() with the hello, which is before the report.
  ASSERT_TRUE(pump([&] { return a_->module().send_inline(*to_b_, kTag, bytes_of(sent_), {}) == Post::done; }, *a_));
  ++sent_;
  send_unseen();
  ASSERT_TRUE(drive([&] { return handled_ == sent_; }));
  ASSERT_EQ(b_->failures.size(), 1U);
  EXPECT_EQ(b_->failures[0].endpoint, old);
  EXPECT_EQ(b_->accepted.size(), 2U);
  EXPECT_NE(answer_to_, old);
  while (sent_ < 20) send_next();
  ASSERT_TRUE(drive([&] { return handled_ == sent_; }));
  ASSERT_TRUE(drive([&] { return a_->module().arm() && b_->module().arm(); }));
  EXPECT_TRUE(a_->failures.empty());
  EXPECT_EQ(b_->failures.size(), 1U);
}

TEST_F(RailsTest, APeerThatNoRailReachesFailsOnceAndSoDoesEverythingUnderWay) {
  open();
  auto bytes = pattern(kMemory, 4);
  ASSERT_EQ(finish(true, bytes.data(), 0, kMemory).code, Errc{});
  CountedCompletion put;
  CountedCompletion get;
  CountedCompletion flushed;
  ASSERT_EQ(post(true, bytes.data(), 0, kMemory, put), Post::queued);
  ASSERT_EQ(post(false, bytes.data(), 0, kMemory, get), Post::queued);
  ASSERT_EQ(a_->module().flush(to_b_, flushed), Post::queued);
  cut(0);
  cut(1);
  ASSERT_TRUE(drive([&] { return !a_->failures.empty(); }));
  for (const CountedCompletion* completion : {&put, &get, &flushed}) EXPECT_EQ(completion->calls, 1);
  EXPECT_EQ(put.error.code, Errc::peer_gone) << to_string(put.error);
  EXPECT_EQ(a_->failures.size(), 1U);
  EXPECT_EQ(a_->failures[0].why.code, Errc::peer_gone) << to_string(a_->failures[0].why);
  EXPECT_TRUE(to_b_->dead());
  CountedCompletion late;
  EXPECT_EQ(post(true, bytes.data(), 0, 8, late), Post::failed);
}

TEST_F(RailsTest, APeerWithAnotherNumberOfRailsIsReachedOverThoseThatBothHave) {
  open(2);
  config::Store store;
  store.set("btl_sim_fabric", name_);
  store.set("btl_sim_rails", "3");
  Side c{"sim", store};
  btl::Endpoint* const to_b = c.connect(*b_);
  for (std::uint32_t i = 0; i < 100; ++i) ASSERT_EQ(send(*to_b, bytes_of(i), {}, c, *b_), Post::done);
  ASSERT_TRUE(pump([&] { return handled_ == 100; }, c, *b_));
  const auto bytes = pattern(kMemory, 5);
  CountedCompletion put;
  ASSERT_EQ(c.module().put(*to_b, bytes.data(), nullptr, reinterpret_cast<std::uint64_t>(memory_.data()), handle_,
                           kMemory, put),
            Post::queued);
  ASSERT_TRUE(pump([&] { return put.calls != 0; }, c, *b_));
  EXPECT_TRUE(put.ok()) << to_string(put.error);
  EXPECT_TRUE(memory_ == bytes);
}

TEST_F(RailsTest, AnAddressThatIsNotOfRailsIsRefused) {
  open();
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, std::size_t{20}}) {
    EXPECT_EQ(a_->module().connect(PeerId::random(), b_->module().address().first(size)).error().code, Errc::protocol);
  }
  std::vector<std::byte> single(24, std::byte{1});
  EXPECT_EQ(a_->module().connect(PeerId::random(), single).error().code, Errc::protocol);
  const MemoryHandle foreign = *MemoryHandle::from_bytes(single);
  CountedCompletion completion;
  EXPECT_EQ(a_->module().put(*to_b_, single.data(), nullptr, 0, foreign, 8, completion), Post::failed);
  EXPECT_EQ(completion.error.code, Errc::protocol);
}

// Rails break and heal at random, never both at a time: everything arrives, once and in order.
TEST_F(RailsTest, WhateverBreaksAsLongAsOneRailStandsEverythingArrivesOnce) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    name_ = fresh_fabric_name();
    sent_ = handled_ = 0;
    open(2, "0.01");
    std::mt19937 random{seed};
    const auto bytes = pattern(kMemory, seed);
    std::fill(memory_.begin(), memory_.end(), std::byte{});
    std::deque<CountedCompletion> puts;
    std::size_t offset = 0;
    bool is_cut = false;
    while (sent_ < 300) {
      send_next();
      if (random() % 10 == 0 && offset < kMemory) {
        const std::size_t size = std::min<std::size_t>(kMemory - offset, 1 + random() % (1 << 20));
        CountedCompletion& put = puts.emplace_back();
        ASSERT_TRUE(drive([&] {
          return post(true, const_cast<std::byte*>(bytes.data()) + offset, offset, size, put) == Post::queued;
        }));
        offset += size;
      }
      if (random() % 60 == 0) {
        if (is_cut) {
          heal(0);
          heal(1);
        } else {
          // With traffic on it, so that it is found out, and the other one is known to stand.
          ASSERT_TRUE(drive([&] { return handled_ == sent_; }));
          cut(random() % 2);
        }
        is_cut = !is_cut;
      }
    }
    ASSERT_TRUE(drive([&] { return handled_ == sent_; }));
    for (const CountedCompletion& put : puts) {
      ASSERT_TRUE(drive([&] { return put.calls != 0; }));
      EXPECT_EQ(put.calls, 1);
      EXPECT_TRUE(put.ok()) << to_string(put.error);
    }
    EXPECT_EQ(std::memcmp(memory_.data(), bytes.data(), offset), 0);
    EXPECT_TRUE(a_->failures.empty());
    EXPECT_TRUE(b_->failures.empty());
    a_.reset();
    b_.reset();
  }
}

/// A rail without peers that counts the open batches.
class BatchingRail final : public btl::MessageTransport {
 public:
  BatchingRail(const btl::ModuleParameters& parameters, int& batches)
      : MessageTransport(parameters, {.transport = "batching", .max_send = 1024}), batches_(batches) {}

  [[nodiscard]] ByteSpan address() const noexcept override { return {}; }
  Result<btl::Endpoint*> connect(const PeerId&, ByteSpan) override { return Error{Errc::unreachable, 0, "a double"}; }
  void disconnect(btl::Endpoint&) noexcept override {}
  Post send_inline(btl::Endpoint&, Tag, ByteSpan, ByteSpan) noexcept override { return Post::again; }
  void begin_batch() noexcept override { ++batches_; }
  void end_batch() noexcept override { --batches_; }
  std::size_t progress(std::size_t) noexcept override { return 0; }
  [[nodiscard]] int wait_fd() const noexcept override { return event_.get(); }
  bool arm() noexcept override { return true; }

 private:
  int& batches_;
  Fd event_{::eventfd(0, EFD_CLOEXEC)};
};

TEST(RailsBatch, IsABatchOfEachRail) {
  std::array<int, 2> batches{};
  Side side{[&](const btl::ModuleParameters& parameters) -> Result<std::unique_ptr<btl::Module>> {
    const auto opener = [&](const btl::ModuleParameters& below, std::size_t rail) {
      return Result<std::unique_ptr<btl::Module>>{std::make_unique<BatchingRail>(below, batches.at(rail))};
    };
    OPAL_TRY_ASSIGN(auto module, btl::rails::Module::open(parameters, batches.size(), opener));
    return std::unique_ptr<btl::Module>{std::move(module)};
  }};
  side.module().begin_batch();
  EXPECT_EQ(batches, (std::array<int, 2>{1, 1}));
  side.module().begin_batch();
  EXPECT_EQ(batches, (std::array<int, 2>{2, 2}));
  side.module().end_batch();
  side.module().end_batch();
  EXPECT_EQ(batches, (std::array<int, 2>{0, 0}));
}

}  // namespace
}  // namespace opal::test
