// SPDX-License-Identifier: Apache-2.0
// Contexts under loss, partitions, crashes, farewells and returns: what party.hpp lists holds for every seed.
#include <gtest/gtest.h>

#include "tests/sim/party.hpp"
#include "tests/sim/seeds.hpp"

namespace opal::test {
namespace {

using Parties = std::vector<std::unique_ptr<Party>>;

struct Trouble {
  double loss = 0;
  bool partitions = false;
  bool crashes = false;
};

struct Outcome {
  std::uint64_t messages = 0;
  std::uint64_t failures = 0;
  std::uint64_t time_ns = 0;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome simulate(std::uint64_t seed, const Trouble& trouble) {
  SimWorld world{{.seed = seed, .jitter_ns = 30'000, .loss = trouble.loss, .retries = 5, .retry_ns = 20'000}};
  Parties parties;
  for (int i = 0; i < 5; ++i) parties.push_back(std::make_unique<Party>(world, parties));
  for (int turn = 0; turn < 400; ++turn) {
    Party& party = *parties[world.up_to(parties.size() - 1)];
    if (party.alive()) party.act();
    if (trouble.partitions && world.chance(0.01)) {
      for (const auto& each : parties)
        world.fabric().set_group(each->node(), static_cast<std::uint32_t>(world.up_to(1)));
    }
    if (world.chance(0.03)) world.fabric().heal();
    if (trouble.crashes && party.alive() && world.chance(0.003)) {
      party.crash(world.chance(0.5) ? btl::sim::Crash::process : btl::sim::Crash::host);
    }
    world.run(world.up_to(20));
  }
  world.fabric().heal();
  world.fabric().set_loss(0);
  world.run_out();
  Outcome outcome;
  for (const auto& party : parties) {
    if (!party->alive()) continue;
    party->check_end();
    outcome.messages += party->messages();
    outcome.failures += party->failures();
  }
  outcome.time_ns = world.fabric().now_ns();
  return outcome;
}

TEST(SimContexts, OverAGoodNetworkEverythingArrivesInOrder) {
  for_each_seed(300, [](std::uint64_t seed) {
    const Outcome outcome = simulate(seed, {});
    EXPECT_GT(outcome.messages, 200U);
  });
}

TEST(SimContexts, LossIsNotSeenAbove) {
  for_each_seed(300, [](std::uint64_t seed) {
    const Outcome outcome = simulate(seed, {.loss = 0.02});
    EXPECT_GT(outcome.messages, 200U);
  });
}

TEST(SimContexts, UnderPartitionsAndCrashesOnlyTheEndOfALifeIsLost) {
  std::uint64_t failures = 0;
  for_each_seed(2000, [&](std::uint64_t seed) {
    failures += simulate(seed, {.loss = 0.02, .partitions = true, .crashes = true}).failures;
  });
  EXPECT_GT(failures, 0U) << "no endpoint ever failed: the trouble was none";
}

TEST(SimContexts, ASeedReplaysExactly) {
  for_each_seed(500, [](std::uint64_t seed) {
    const Trouble trouble{.loss = 0.02, .partitions = true, .crashes = true};
    const Outcome first = simulate(seed, trouble);
    EXPECT_TRUE(first == simulate(seed, trouble));
  });
}

}  // namespace
}  // namespace opal::test
