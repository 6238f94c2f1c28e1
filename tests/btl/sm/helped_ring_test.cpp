// SPDX-License-Identifier: Apache-2.0
// The memory protocol of a helped get: whatever the interleaving of both sides, every unit arrives exactly once.
#include "opal/btl/sm/helped/state/helped_ring.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace opal::btl::sm {
namespace {

struct alignas(kCacheLine) Line {
  std::byte bytes[kCacheLine];
};

/// Ring memory; chunk contents are the numbers of the units, one byte each.
struct Memory {
  std::vector<Line> lines = std::vector<Line>(kHelpedRingSize / kCacheLine);
  HelpedRing ring{reinterpret_cast<std::byte*>(lines.data())};
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

void fill(TargetSide& target, const UnitRange& piece) {
  for (std::uint32_t i = 0; i < piece.count; ++i) {
    target.chunk()[i * wire::kHelpUnit] = static_cast<std::byte>(piece.first + i);
  }
}

/// One step of the initiator as the module does it; false when the ring has nothing for it.
bool drain(InitiatorSide& initiator, Transfer& transfer) {
  UnitRange piece;
  const std::byte* bytes = nullptr;
  const InitiatorSide::Poll polled = initiator.poll(piece, bytes);
  EXPECT_NE(polled, InitiatorSide::Poll::garbage);
  if (polled != InitiatorSide::Poll::piece) return false;
  for (std::uint32_t i = 0; bytes != nullptr && i < piece.count; ++i) {
    EXPECT_EQ(bytes[i * wire::kHelpUnit], static_cast<std::byte>(piece.first + i)) << "a chunk was filled too early";
  }
  transfer.arrive(piece);
  initiator.pop(piece);
  return true;
}

TEST(SmHelpedRing, EveryUnitArrivesOnceInRandomInterleavingsAlsoPastTheWrapOfTheGeneration) {
  std::mt19937 random{4711};
  Memory memory;
  InitiatorSide initiator{memory.ring};
  TargetSide target{memory.ring};
  for (int round = 0; round < static_cast<int>(Claims::kGenerations) + 1000; ++round) {
    const std::uint32_t total = 1 + random() % (round % 10 == 0 ? 500 : 40);
    Transfer transfer{total};
    const std::uint32_t generation = initiator.begin(total);
    bool feeding = random() % 8 != 0;  // sometimes the target is away for a while
    if (feeding) target.begin(generation, total);
    UnitRange in_hand;  // taken, not published
    int steps = 0;
    while (!initiator.over()) {
      ASSERT_LT(++steps, 100'000) << "stuck";
      switch (random() % 6) {
        case 0:
        case 1:
          if (!feeding && random() % 8 == 0) {
            feeding = true;
            target.begin(generation, total);
          }
          if (!feeding) break;
          if (in_hand.count == 0) {
            const bool large = random() % 2 == 0;
            const TargetSide::Take taken = target.take(in_hand, large ? 4 : 1, large ? 64 : 8);
            ASSERT_NE(taken, TargetSide::Take::garbage);
            if (taken != TargetSide::Take::piece) in_hand = {};
          } else if (in_hand.count > target.chunk_units() && random() % 2 == 0) {
            target.publish(in_hand, true);
            in_hand = {};
          } else if (in_hand.count > target.chunk_units() || random() % 8 == 0) {
            target.give_up(in_hand);  // the copy has failed
            in_hand = {};
          } else {
            fill(target, in_hand);
            target.publish(in_hand, false);
            in_hand = {};
          }
          break;
        case 2:
        case 3: drain(initiator, transfer); break;
        case 4: transfer.arrive(initiator.take_from_back(1 + random() % 4, 1 + random() % 4 + 4)); break;
        default: break;
      }
    }
    ASSERT_TRUE(transfer.complete()) << "round " << round << ", " << total << " units";
  }
}

TEST(SmHelpedRing, TwoThreadsSplitTransfersWithoutLosingOrDoublingAUnit) {
  constexpr std::uint32_t kTransfers = 400;
  constexpr std::uint32_t kUnits = 100;
  Memory memory;
  std::atomic<std::uint32_t> announced{0};
  std::atomic<bool> stop{false};
  std::thread other{[&] {
    TargetSide target{memory.ring};
    std::uint32_t known = 0;
    while (!stop) {
      const std::uint32_t now = announced.load(std::memory_order_acquire);
      if (now != known) target.begin(now % Claims::kGenerations, kUnits);
      known = now;
      UnitRange piece;
      if (target.take(piece, 1, 8) != TargetSide::Take::piece) {
        std::this_thread::yield();
        continue;
      }
      fill(target, piece);
      target.publish(piece, false);
    }
  }};
  InitiatorSide initiator{memory.ring};
  std::uint32_t by_feeder = 0;
  for (std::uint32_t i = 1; i <= kTransfers; ++i) {
    Transfer transfer{kUnits};
    ASSERT_EQ(initiator.begin(kUnits), i);
    announced.store(i, std::memory_order_release);
    while (!initiator.over()) {
      if (drain(initiator, transfer)) {
        ++by_feeder;
      } else if (i % 2 == 0) {
        transfer.arrive(initiator.take_from_back(1, 2));
      } else {
        std::this_thread::yield();
      }
    }
    ASSERT_TRUE(transfer.complete());
  }
  stop = true;
  other.join();
  EXPECT_GE(by_feeder, kTransfers / 2) << "odd transfers are the target's alone";
}

TEST(SmHelpedRing, ARefusalEndsTheTransferAfterWhatWasTakenBefore) {
  Memory memory;
  InitiatorSide initiator{memory.ring};
  TargetSide target{memory.ring};
  Transfer transfer{20};
  target.begin(initiator.begin(20), 20);
  UnitRange piece;
  ASSERT_EQ(target.take(piece, 1, 8), TargetSide::Take::piece);
  target.refuse();
  EXPECT_FALSE(initiator.over()) << "a piece is still on its way";
  EXPECT_EQ(initiator.take_from_back(1, 8).count, 0U);
  target.publish(piece, false);
  fill(target, piece);
  EXPECT_EQ(target.take(piece, 1, 8), TargetSide::Take::over);
  UnitRange arrived;
  const std::byte* bytes = nullptr;
  ASSERT_EQ(initiator.poll(arrived, bytes), InitiatorSide::Poll::piece);
  initiator.pop(arrived);
  EXPECT_TRUE(initiator.over());
  EXPECT_TRUE(initiator.claims().refused);
}

TEST(SmHelpedRing, AfterARefusalNothingComesOfWhatWasGivenUp) {
  Memory memory;
  InitiatorSide initiator{memory.ring};
  TargetSide target{memory.ring};
  target.begin(initiator.begin(64), 64);
  UnitRange piece;
  ASSERT_EQ(target.take(piece, 16, 16), TargetSide::Take::piece);
  target.give_up(piece);
  target.refuse();
  EXPECT_TRUE(initiator.over());
  EXPECT_TRUE(initiator.claims().refused);
}

TEST(SmHelpedRing, WhatABrokenPeerWritesIsRecognised) {
  Memory memory;
  InitiatorSide initiator{memory.ring};
  TargetSide target{memory.ring};
  target.begin(initiator.begin(20), 20);
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
    EXPECT_EQ(initiator.poll(piece, bytes), InitiatorSide::Poll::garbage) << first << ' ' << units;
  }
  memory.ring.drained().store(1);  // more than were filled
  EXPECT_EQ(target.take(piece, 1, 8), TargetSide::Take::garbage);
  memory.ring.drained().store(0);
  memory.ring.claim().store(Claims{0, 21, 1, false}.word());  // more than there is
  EXPECT_EQ(target.take(piece, 1, 8), TargetSide::Take::garbage);
  EXPECT_EQ(initiator.take_from_back(1, 8).count, 0U);
}

}  // namespace
}  // namespace opal::btl::sm
