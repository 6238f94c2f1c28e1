// SPDX-License-Identifier: Apache-2.0
// The out-of-band channel while its way changes: what one end sends is what the other receives, in order and once each,
// whenever the better way comes, and whenever it or the first one dies.
#include <gtest/gtest.h>

#include "tests/sim/oob_end.hpp"
#include "tests/sim/seeds.hpp"

namespace opal::test {
namespace {

struct Trouble {
  double loss = 0;
  double cuts = 0;          ///< of the better way, for each turn
  bool base_dies = false;   ///< at some time, for good
  std::uint64_t most = 60;  ///< bytes of a message; now and then a hundred times as much
};

struct Outcome {
  std::uint64_t changes = 0;
  std::uint64_t messages = 0;
  bool both_on_better = false;
  bool alive = false;
  std::uint64_t time_ns = 0;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

/// What has arrived is how what was sent begins; when `all`, it is all.
void compare(const OobEnd& from, const OobEnd& to, bool all) {
  ASSERT_LE(to.received().size(), from.sent().size()) << "more has arrived than was sent";
  for (std::size_t i = 0; i < to.received().size(); ++i) {
    ASSERT_EQ(to.received()[i], from.sent()[i]) << "message " << i << " of " << from.sent().size();
  }
  if (all) {
    ASSERT_EQ(to.received().size(), from.sent().size()) << "something is lost";
  }
}

Outcome simulate(std::uint64_t seed, const Trouble& trouble) {
  SimWorld world{{.seed = seed, .jitter_ns = 30'000, .loss = trouble.loss, .retries = 5, .retry_ns = 20'000}};
  OobEnd a{world};
  OobEnd b{world};
  a.connect(b);
  const std::uint64_t end_of_base = trouble.base_dies ? world.up_to(600) : UINT64_MAX;
  const auto turn = [&](std::uint64_t events) {
    const bool more = world.run(events);
    a.turn();
    b.turn();
    return more;
  };
  for (std::uint64_t i = 0; i < 700; ++i) {
    const std::uint64_t most = world.chance(0.03) ? 100 * trouble.most : trouble.most;
    (world.chance(0.5) ? a : b).send(most);
    if (world.chance(trouble.cuts)) {
      world.fabric().set_group((world.chance(0.5) ? a : b).better_node(), static_cast<std::uint32_t>(world.up_to(1)));
    }
    if (i == end_of_base) world.fabric().set_group(a.base_node(), 7);
    turn(world.up_to(12));
  }
  for (const OobEnd* end : {&a, &b}) world.fabric().set_group(end->better_node(), 0);
  world.fabric().set_loss(0);
  int rounds = 0;
  const auto settled = [](OobEnd& end) {
    return !end.connected() || !end.connection().alive() ||
           (end.connection().stream().idle() && !end.connection().needs_step());
  };
  // Twice: what the ends do in the last turn goes out with the next.
  for (int quiet = 0; rounds < 200'000 && quiet < 2; ++rounds) {
    quiet = turn(20) || !settled(a) || !settled(b) ? 0 : quiet + 1;
  }
  EXPECT_LT(rounds, 200'000) << "something goes on for ever";
  const bool alive = b.connected() && a.connection().alive() && b.connection().alive();
  compare(a, b, alive);
  compare(b, a, alive);
  return {a.changes() + b.changes(), a.received().size() + b.received().size(), a.on_better() && b.on_better(), alive,
          world.fabric().now_ns()};
}

TEST(SimOob, ALinkThatCarriesSomethingMovesToTheBetterWay) {
  for_each_seed(300, [](std::uint64_t seed) {
    const Outcome outcome = simulate(seed, {});
    EXPECT_TRUE(outcome.alive && outcome.both_on_better);
    EXPECT_EQ(outcome.changes, 4U) << "from nothing to tcp to the better one, at each end";
    EXPECT_GT(outcome.messages, 600U) << "the other end sends once it has heard of this one";
  });
}

TEST(SimOob, NothingIsLostRepeatedOrReorderedWhenTheBetterWayDiesAtAnyTime) {
  std::uint64_t changes = 0;
  std::uint64_t seeds = 0;
  for_each_seed(3000, [&](std::uint64_t seed) {
    const Outcome outcome = simulate(seed, {.loss = 0.03, .cuts = 0.02});
    EXPECT_TRUE(outcome.alive) << "tcp has been there all the time";
    changes += outcome.changes;
    ++seeds;
  });
  if (seeds > 100) {
    EXPECT_GT(changes, 5 * seeds) << "the better way hardly ever died";
  }
}

TEST(SimOob, MessagesLongerThanTheWindowMoveToo) {
  for_each_seed(60, [](std::uint64_t seed) { EXPECT_TRUE(simulate(seed, {.cuts = 0.02, .most = 20'000}).alive); });
}

TEST(SimOob, TheBetterWayGoesOnWithoutTheFirstOne) {
  std::uint64_t survived = 0;
  std::uint64_t seeds = 0;
  for_each_seed(2000, [&](std::uint64_t seed) {
    survived += simulate(seed, {.loss = 0.02, .base_dies = true}).alive ? 1 : 0;
    ++seeds;
  });
  if (seeds > 100) {
    EXPECT_GT(survived, seeds / 2);
    EXPECT_LT(survived, seeds) << "tcp never died before there was another way";
  }
}

TEST(SimOob, ASeedReplaysExactly) {
  for_each_seed(200, [](std::uint64_t seed) {
    const Trouble trouble{.loss = 0.03, .cuts = 0.02, .base_dies = seed % 2 == 0};
    const Outcome first = simulate(seed, trouble);
    EXPECT_TRUE(first == simulate(seed, trouble));
  });
}

}  // namespace
}  // namespace opal::test
