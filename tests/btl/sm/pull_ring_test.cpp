// SPDX-License-Identifier: Apache-2.0
// The memory protocol of a helped get: whatever the interleaving of both sides, every unit arrives exactly once.
#include "opal/btl/sm/helped/pull_ring.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "opal/btl/sm/helped/way_chooser.hpp"

namespace opal::btl::sm {
namespace {

struct alignas(kCacheLine) Line {
  std::byte bytes[kCacheLine];
};

/// Ring memory for `chunks` chunks of `units`; chunk contents are the numbers of the units, one byte each.
struct Memory {
  Memory(std::uint32_t chunks, std::uint32_t units)
      : lines(PullRing::bytes(chunks, units) / kCacheLine + 1),
        ring(reinterpret_cast<std::byte*>(lines.data()), chunks, units) {}
  std::vector<Line> lines;
  PullRing ring;
};

/// A transfer of `total` units whose destination counts what arrived.
struct Transfer {
  explicit Transfer(std::uint32_t total) : arrivals(total) {}
  void arrive(const UnitRange& range) {
    for (std::uint32_t i = 0; i < range.count; ++i) ++arrivals.at(range.first + i);
  }
  [[nodiscard]] bool complete() const {
    return std::all_of(arrivals.begin(), arrivals.end(), [](int count) { return count == 1; });
  }
  std::vector<int> arrivals;
};

void fill(Feeder& feeder, const UnitRange& piece) {
  for (std::uint32_t i = 0; i < piece.count; ++i) {
    feeder.chunk()[i * wire::kPullUnit] = static_cast<std::byte>(piece.first + i);
  }
}

/// One step of the puller as the module does it; false when the ring has nothing for it.
bool drain(Puller& puller, Transfer& transfer) {
  UnitRange piece;
  const std::byte* bytes = nullptr;
  const Puller::Look look = puller.look(piece, bytes);
  EXPECT_NE(look, Puller::Look::garbage);
  if (look != Puller::Look::piece) return false;
  for (std::uint32_t i = 0; bytes != nullptr && i < piece.count; ++i) {
    EXPECT_EQ(bytes[i * wire::kPullUnit], static_cast<std::byte>(piece.first + i)) << "a chunk was filled too early";
  }
  transfer.arrive(piece);
  puller.pop(piece);
  return true;
}

TEST(SmPullRing, EveryUnitArrivesOnceInRandomInterleavingsAlsoPastTheWrapOfTheGeneration) {
  std::mt19937 random{4711};
  Memory memory{4, 8};
  Puller puller{memory.ring};
  Feeder feeder{memory.ring};
  for (int round = 0; round < static_cast<int>(Claims::kGenerations) + 1000; ++round) {
    const std::uint32_t total = 1 + random() % (round % 10 == 0 ? 500 : 40);
    Transfer transfer{total};
    const std::uint32_t generation = puller.begin(total);
    bool feeding = random() % 8 != 0;  // sometimes the feeder is away for a while
    if (feeding) feeder.begin(generation, total);
    UnitRange in_hand;  // taken, not published
    int steps = 0;
    while (!puller.over()) {
      ASSERT_LT(++steps, 100'000) << "stuck";
      switch (random() % 6) {
        case 0:
        case 1:
          if (!feeding && random() % 8 == 0) {
            feeding = true;
            feeder.begin(generation, total);
          }
          if (!feeding) break;
          if (in_hand.count == 0) {
            const bool large = random() % 2 == 0;
            const Feeder::Look look = feeder.take(in_hand, large ? 4 : 1, large ? 64 : 8);
            ASSERT_NE(look, Feeder::Look::garbage);
            if (look != Feeder::Look::piece) in_hand = {};
          } else if (in_hand.count > feeder.chunk_units() && random() % 2 == 0) {
            feeder.publish(in_hand, true);
            in_hand = {};
          } else if (in_hand.count > feeder.chunk_units() || random() % 8 == 0) {
            feeder.put_back(in_hand);  // single copy has failed: by chunks then
            ASSERT_EQ(feeder.take(in_hand, 1, feeder.chunk_units()), Feeder::Look::piece);
          } else {
            fill(feeder, in_hand);
            feeder.publish(in_hand, false);
            in_hand = {};
          }
          break;
        case 2:
        case 3: drain(puller, transfer); break;
        case 4: {
          const UnitRange range = puller.take_back(1 + random() % 4, 1 + random() % 4 + 4);
          if (range.count != 0 && random() % 4 == 0) {
            puller.put_back(range);
            if (feeding) feeder.begin(generation, total);  // announced again
          } else {
            transfer.arrive(range);
          }
          break;
        }
        default: break;
      }
    }
    ASSERT_TRUE(transfer.complete()) << "round " << round << ", " << total << " units";
  }
}

TEST(SmPullRing, TwoThreadsSplitTransfersWithoutLosingOrDoublingAUnit) {
  constexpr std::uint32_t kTransfers = 400;
  constexpr std::uint32_t kUnits = 100;
  Memory memory{4, 8};
  std::atomic<std::uint32_t> announced{0};
  std::atomic<bool> stop{false};
  std::thread other{[&] {
    Feeder feeder{memory.ring};
    std::uint32_t known = 0;
    while (!stop) {
      const std::uint32_t now = announced.load(std::memory_order_acquire);
      if (now != known) feeder.begin(now % Claims::kGenerations, kUnits);
      known = now;
      UnitRange piece;
      if (feeder.take(piece, 1, 8) != Feeder::Look::piece) {
        std::this_thread::yield();
        continue;
      }
      fill(feeder, piece);
      feeder.publish(piece, false);
    }
  }};
  Puller puller{memory.ring};
  std::uint32_t by_feeder = 0;
  for (std::uint32_t i = 1; i <= kTransfers; ++i) {
    Transfer transfer{kUnits};
    ASSERT_EQ(puller.begin(kUnits), i);
    announced.store(i, std::memory_order_release);
    while (!puller.over()) {
      if (drain(puller, transfer)) {
        ++by_feeder;
      } else if (i % 2 == 0) {
        transfer.arrive(puller.take_back(1, 2));
      } else {
        std::this_thread::yield();
      }
    }
    ASSERT_TRUE(transfer.complete());
  }
  stop = true;
  other.join();
  EXPECT_GE(by_feeder, kTransfers / 2) << "odd transfers are the feeder's alone";
}

TEST(SmPullRing, ARefusalEndsTheTransferAfterWhatWasTakenBefore) {
  Memory memory{4, 8};
  Puller puller{memory.ring};
  Feeder feeder{memory.ring};
  Transfer transfer{20};
  feeder.begin(puller.begin(20), 20);
  UnitRange piece;
  ASSERT_EQ(feeder.take(piece, 1, 8), Feeder::Look::piece);
  feeder.refuse();
  EXPECT_FALSE(puller.over()) << "a piece is still on its way";
  EXPECT_EQ(puller.take_back(1, 8).count, 0U);
  feeder.publish(piece, false);
  fill(feeder, piece);
  EXPECT_EQ(feeder.take(piece, 1, 8), Feeder::Look::over);
  UnitRange arrived;
  const std::byte* bytes = nullptr;
  ASSERT_EQ(puller.look(arrived, bytes), Puller::Look::piece);
  puller.pop(arrived);
  EXPECT_TRUE(puller.over());
  EXPECT_TRUE(puller.claims().refused);
}

TEST(SmPullRing, ARefusalGivesBackWhatWasTakenAndNotCopied) {
  Memory memory{4, 8};
  Puller puller{memory.ring};
  Feeder feeder{memory.ring};
  feeder.begin(puller.begin(64), 64);
  UnitRange piece;
  ASSERT_EQ(feeder.take(piece, 16, 16), Feeder::Look::piece);
  feeder.put_back(piece);
  feeder.refuse();
  EXPECT_TRUE(puller.over()) << "nothing will come of what was put back";
  EXPECT_TRUE(puller.claims().refused);
}

TEST(SmPullRing, ATransferThatReplacesAnotherOneGivesNoUnitsOfThatOne) {
  for (const bool same_generation : {false, true}) {  // only a broken peer announces one again with another size
    Memory memory{4, 8};
    Puller puller{memory.ring};
    Feeder feeder{memory.ring};
    const std::uint32_t before = puller.begin(64);
    feeder.begin(before, 64);
    UnitRange piece;
    ASSERT_EQ(feeder.take(piece, 16, 16), Feeder::Look::piece);
    feeder.put_back(piece);
    const std::uint32_t generation = puller.begin(2);
    if (same_generation) memory.ring.claim().store(Claims{0, 2, before, false}.word());
    feeder.begin(same_generation ? before : generation, 2);
    ASSERT_EQ(feeder.take(piece, 1, 8), Feeder::Look::piece);
    EXPECT_LE(piece.first + piece.count, 2U);
  }
}

TEST(SmPullRing, WhatABrokenPeerWritesIsRecognised) {
  Memory memory{4, 8};
  Puller puller{memory.ring};
  Feeder feeder{memory.ring};
  feeder.begin(puller.begin(20), 20);
  UnitRange piece;
  const std::byte* bytes = nullptr;
  const auto write = [&](std::uint32_t first, std::uint16_t units) {
    memory.ring.piece(0).store(std::bit_cast<std::uint64_t>(wire::PieceWord{first, units, piece_seq(0)}));
  };
  for (const auto& [first, units] : {std::pair<std::uint32_t, std::uint16_t>{0, 0},
                                     {0, 9},  // more than a chunk
                                     {1, 4},  // not the next
                                     {wire::kInPlace, 21},
                                     {wire::kInPlace | 1, 4}}) {
    write(first, units);
    EXPECT_EQ(puller.look(piece, bytes), Puller::Look::garbage) << first << ' ' << units;
  }
  memory.ring.drained().store(1);  // more than were filled
  EXPECT_EQ(feeder.take(piece, 1, 8), Feeder::Look::garbage);
  memory.ring.drained().store(0);
  memory.ring.claim().store(Claims{0, 21, 1, false}.word());  // more than there is
  EXPECT_EQ(feeder.take(piece, 1, 8), Feeder::Look::garbage);
  EXPECT_EQ(puller.take_back(1, 8).count, 0U);
}

TEST(SmWayChooser, TriesEachWayAndSettlesOnTheFastestPerSizeAndReturnsWhenTheWorldChanges) {
  WayChooser chooser;
  const Ways all{{true, true, true}};
  // Small ones are fastest alone, large ones by both; then the machine changes.
  bool changed = false;
  const auto takes = [&](std::uint64_t size, Way way) -> std::uint64_t {
    const bool large = (size > 200'000) != changed;
    if (way == Way::alone) return large ? size / 10 : size / 20;
    if (way == Way::cooperative) return large ? size / 20 : size / 10;
    return size / 5;
  };
  std::uint32_t fastest = 0;
  const auto run = [&](std::uint32_t transfers) {
    fastest = 0;
    for (std::uint32_t i = 0; i < transfers; ++i) {
      for (const std::uint64_t size : {40'000U, 1'000'000U}) {
        const Way way = chooser.choose(size, all);
        chooser.learn(size, way, takes(size, way));
        if (takes(size, way) == size / 20) ++fastest;
      }
    }
  };
  run(12);
  run(2000);
  EXPECT_GE(fastest, 2 * 2000 - 2 * 9U) << "all but looks around, rarer and rarer";
  changed = true;
  run(3000);
  run(2000);
  EXPECT_GE(fastest, 2 * 2000 - 2 * 3U) << "has noticed the change";
}

TEST(SmWayChooser, FindsTheFastestWayThoughItsFirstTriesWereSlow) {
  WayChooser chooser;
  std::uint32_t slow_tries = WayChooser::kTries;  // its memory is touched for the first time, say
  std::uint32_t last_other = 0;
  for (std::uint32_t i = 1; i <= 500; ++i) {
    const Way way = chooser.choose(65536, Ways{{true, true, true}});
    const bool slow = way == Way::pipelined && slow_tries != 0;
    if (slow) --slow_tries;
    chooser.learn(65536, way, slow ? 9000 : way == Way::pipelined ? 2000 : way == Way::alone ? 6000 : 5000);
    if (way != Way::pipelined && !std::has_single_bit(i)) last_other = i;
  }
  EXPECT_LT(last_other, 64U);
}

TEST(SmWayChooser, OnlyGivesWaysThatArePossible) {
  WayChooser chooser;
  for (int i = 0; i < 3000; ++i) {
    const Way way = chooser.choose(100'000, Ways{{false, false, true}});
    ASSERT_EQ(way, Way::pipelined);
    chooser.learn(100'000, way, 1000);
    ASSERT_EQ(chooser.choose(5'000'000, Ways{{true, false, false}}), Way::alone);
  }
}

}  // namespace
}  // namespace opal::btl::sm
