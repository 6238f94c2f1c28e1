// SPDX-License-Identifier: Apache-2.0
// Which hosts a job gets, which ranks they get, and messages between its daemons as bytes.
#include "runtime/launch/hosts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "runtime/daemon/tree/bootstrap.hpp"
#include "runtime/daemon/tree/messages.hpp"
#include "runtime/packing.hpp"

namespace runtime::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Ranks = std::vector<std::uint32_t>;

TEST(Placement, BySlotFillsHostsAndByNodeGoesRound) {
  const std::vector<HostSlots> hosts{{"a", 2}, {"b", 1}, {"c", 3}};
  EXPECT_THAT(place_ranks(Map::slot, 4, hosts), ElementsAre(Ranks{0, 1}, Ranks{2}, Ranks{3}));
  EXPECT_THAT(place_ranks(Map::node, 6, hosts), ElementsAre(Ranks{0, 3}, Ranks{1}, Ranks{2, 4, 5}));
  EXPECT_THAT(place_ranks(Map::slot, 8, hosts), ElementsAre(Ranks{0, 1, 2}, Ranks{3, 4}, Ranks{5, 6, 7}))
      << "what is over goes round";
  EXPECT_EQ(describe(hosts, place_ranks(Map::slot, 2, hosts)),
            "a (2 slots): ranks 0-1\nb (1 slot): no ranks\nc (3 slots): no ranks\n");
  EXPECT_EQ(describe({{"a", 4}, {"b", 1}}, {{0, 1, 3, 5, 6}, {2}}),
            "a (4 slots): ranks 0-1,3,5-6\nb (1 slot): rank 2\n");
}

TEST(Placement, GivesEveryRankToOneHostAndNoHostTooMuch) {
  std::mt19937 random{3};
  for (int round = 0; round < 2000; ++round) {
    std::vector<HostSlots> hosts(1 + random() % 6);
    unsigned slots = 0;
    for (HostSlots& host : hosts) slots += host.slots = 1 + random() % 5;
    const unsigned ranks = 1 + random() % (2 * slots);
    const Map map = random() % 2 == 0 ? Map::slot : Map::node;
    const auto placed = place_ranks(map, ranks, hosts);
    Ranks all;
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      EXPECT_TRUE(std::is_sorted(placed[i].begin(), placed[i].end()));
      if (ranks <= slots) {
        EXPECT_LE(placed[i].size(), hosts[i].slots);
      }
      all.insert(all.end(), placed[i].begin(), placed[i].end());
    }
    std::sort(all.begin(), all.end());
    Ranks expected(ranks);
    std::iota(expected.begin(), expected.end(), 0U);
    ASSERT_EQ(all, expected);
  }
}

TEST(HostLists, OfSlurmAreExpanded) {
  EXPECT_THAT(expand_host_list("n[08-10,12],x,y[1]"), ElementsAre("n08", "n09", "n10", "n12", "x", "y1"));
  EXPECT_THAT(expand_host_list("single"), ElementsAre("single"));
  EXPECT_THAT(expand_host_list("nid[1048577-1048578]"), ElementsAre("nid1048577", "nid1048578"));
  EXPECT_THAT(expand_host_list("c[10010101-10010102]s"), ElementsAre("c10010101s", "c10010102s"));
  EXPECT_THAT(expand_host_list("r[1-2]n[08-09],x"), ElementsAre("r1n08", "r1n09", "r2n08", "r2n09", "x"));
  EXPECT_THAT(expand_host_list("n[1]x"), ElementsAre("n1x"));
  EXPECT_THAT(expand_host_list("n[18446744073709551615]"), ElementsAre("n18446744073709551615"));
  for (const char* bad : {"", "n[1", "n[2-1]", "n[a]", "a,,b", "a,", ",a", "n[]", "n[1,]", "n1]", "n[[1]]",
                          "n[1-2000000]", "n[1-2000]m[1-2000]", "n[18446744073709551616]", "-n[1-2]"}) {
    EXPECT_THAT(expand_host_list(bad), IsEmpty()) << bad;
  }
  EXPECT_THAT(expand_counts("2(x3),1"), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(expand_counts("2,1,"), ElementsAre(2, 1));
  for (const char* bad : {"", "x", "2(x", "2(x)"}) EXPECT_THAT(expand_counts(bad), IsEmpty());
}

TEST(Messages, SurviveTheirWayAndAreRefusedWhenCutOrExtended) {
  daemon::Launch launch;
  launch.hosts = {{"head", {}}, {"h1", {0, 2}}, {"h2", {1}}};
  launch.arguments = {"program", "", "with space"};
  launch.environment = {{"A", "1"}, {"B", ""}};
  launch.bind = Bind::objects;
  const std::string bytes = pack(launch);
  const auto back = unpack<daemon::Launch>(oob::as_bytes(bytes));
  ASSERT_TRUE(back);
  EXPECT_EQ(pack(*back), bytes);
  EXPECT_EQ(back->hosts[1].ranks, (Ranks{0, 2}));
  EXPECT_EQ(back->environment, launch.environment);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(unpack<daemon::Launch>(oob::as_bytes(bytes).first(size))) << size;
  }
  EXPECT_FALSE(unpack<daemon::Launch>(oob::as_bytes(bytes + "x")));
  EXPECT_FALSE(unpack<Started>(oob::as_bytes(std::string(16, '\xff')))) << "a rank of more than 32 bits";
}

TEST(Messages, ABootstrapLineOfAnotherVersionIsCalledSo) {
  const daemon::Bootstrap bootstrap{"job", 3, std::string{"\0\n\xff", 3}, "secret", 1000, 2000, {{"am_spin", "8us"}}};
  std::string line = daemon::to_line(bootstrap);
  ASSERT_EQ(line.back(), '\n');
  line.pop_back();
  ASSERT_TRUE(daemon::from_line(line));
  EXPECT_EQ(pack(*daemon::from_line(line)), pack(bootstrap));
  EXPECT_EQ(daemon::from_line("opald-2 00").error().code, Errc::version_mismatch);
  EXPECT_EQ(daemon::from_line("hello").error().code, Errc::protocol);
  EXPECT_EQ(daemon::from_line(line.substr(0, line.size() - 2)).error().code, Errc::protocol);
}

}  // namespace
}  // namespace runtime::launch
