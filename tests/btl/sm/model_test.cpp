// SPDX-License-Identifier: Apache-2.0
// Every way that the protocols of shared memory can go, within small bounds: the fast box's ring, the FIFO, parking and
// taking back a box, sleeping.  The code under test is the transport's own templates over modelled memory
// (tests/model/).  Each protocol is also explored without what makes it right, which must be found.
#include <gtest/gtest.h>

#include <optional>

#include "opal/btl/sm/messages/memory/box_state.hpp"
#include "opal/btl/sm/messages/memory/credit_wait.hpp"
#include "opal/btl/sm/messages/memory/fast_box.hpp"
#include "opal/btl/sm/messages/memory/fifo.hpp"
#include "tests/btl/sm/fifo_pop.hpp"
#include "tests/model/memory.hpp"

namespace opal::btl::sm {
namespace {

using test::model::Atomic;
using test::model::Explorer;
using test::model::Memory;
using test::model::Plain;
using test::model::Ring;

constexpr Tag kTag = 0x8001;

template <class Program, class... Arguments>
auto maker(Arguments... arguments) {
  return [=]() -> std::unique_ptr<Explorer::Program> { return std::make_unique<Program>(arguments...); };
}

void expect_right(const Explorer::Outcome& outcome) {
  EXPECT_EQ(outcome.failure, "");
  EXPECT_TRUE(outcome.exhausted) << outcome.runs << " runs were not enough";
  testing::Test::RecordProperty("states", std::to_string(outcome.states));
}

// ---- The ring -------------------------------------------------------------------------------------------------------

/// One writer, one reader; message i has the value i + 1 and `sizes[i % 3]` bytes.
struct BoxProgram : Explorer::Program {
  BoxProgram(std::size_t lines, std::array<std::size_t, 3> sizes, std::uint16_t messages, int polls, bool mortal,
             std::uint32_t counters_from)
      : ring(lines), released(counters_from), writer(ring.bytes(), released), reader(ring.bytes(), released) {
    Explorer::current().add_thread(
        [this, sizes, messages] {
          std::byte payload[128] = {};
          for (std::uint16_t i = 0; i < messages; ++i) {
            const std::uint64_t value = i + 1U;
            std::memcpy(payload, &value, sizeof value);
            // A refusal is final here: that there is room again is not what a spinning writer would show.
            if (!writer.push(kTag, i, {}, ByteSpan{payload, sizes[i % 3]})) return;
            ++written;
          }
        },
        mortal);
    Explorer::current().add_thread([this, polls] {
      for (int i = 0; i < polls; ++i) read_one();
    });
  }
  bool read_one() {
    BoxRecord record{};
    const auto look = reader.look(record);
    Explorer::current().check(look != decltype(reader)::Look::garbage, "garbage");
    if (look != decltype(reader)::Look::record) return false;
    Explorer::current().check(record.tag == kTag && record.seq == read, "a record out of turn");
    Explorer::current().check(ring.read(record.data.data()) == read + 1U, "a record with another message");
    reader.pop(record);
    ++read;
    return true;
  }
  void finish() override {
    while (read_one()) {
    }
    // A killed writer may have published what it has not counted.
    Explorer::current().check(read == written || read == written + 1, "a message is lost");
    Explorer::current().check(!writer.broken(), "the reader's counter made no sense");
  }
  Ring ring;
  Atomic<std::uint32_t> released;
  BasicBoxWriter<Memory> writer;
  BasicBoxReader<Memory> reader;
  std::uint16_t written = 0;
  std::uint16_t read = 0;
};

TEST(ModelOfTheFastBox, EveryWayOfSevenMessagesThroughFourLinesIsRight) {
  expect_right(Explorer::explore(maker<BoxProgram>(4, std::array<std::size_t, 3>{8, 8, 8}, 7, 6, false, 0U)));
}

TEST(ModelOfTheFastBox, EveryWayOfLongMessagesThatSkipTheEndIsRight) {
  expect_right(Explorer::explore(maker<BoxProgram>(8, std::array<std::size_t, 3>{100, 8, 100}, 8, 7, false, 0U)));
}

TEST(ModelOfTheFastBox, EveryWayWhileTheCountersWrapAroundIsRight) {
  expect_right(Explorer::explore(maker<BoxProgram>(4, std::array<std::size_t, 3>{8, 8, 8}, 6, 6, false, 0U - 128U)));
}

TEST(ModelOfTheFastBox, AWriterKilledAnywhereLeavesARightPrefix) {
  expect_right(Explorer::explore(maker<BoxProgram>(8, std::array<std::size_t, 3>{100, 8, 100}, 6, 5, true, 0U)));
}

TEST(ModelOfTheFastBox, WithoutReleaseItIsFoundWrong) {
  Explorer::Options options;
  options.weak_releases = true;
  const auto outcome =
      Explorer::explore(maker<BoxProgram>(4, std::array<std::size_t, 3>{8, 8, 8}, 3, 3, false, 0U), options);
  EXPECT_NE(outcome.failure.find("race"), std::string::npos) << outcome.failure;
}

// ---- The FIFO -------------------------------------------------------------------------------------------------------

/// Two producers, one consumer; producer p writes its cell before it announces it.
struct FifoProgram : Explorer::Program {
  FifoProgram(std::array<std::uint32_t, 2> items, int polls, bool mortal, std::uint64_t wrong_tail, bool heals)
      : tail(wrong_tail), consumer(slots, tail) {
    for (std::uint32_t producer = 0; producer < 2; ++producer) {
      Explorer::current().add_thread(
          [this, producer, items] {
            BasicFifoProducer<Atomic<std::uint64_t>> queue{slots, tail};
            for (std::uint32_t i = 0; i < items[producer]; ++i) {
              cells[producer * 2 + i].set(i + 1);
              if (!queue.push({producer, i})) return;
              ++pushed[producer];
            }
          },
          mortal && producer == 0);
    }
    Explorer::current().add_thread([this, polls, heals] {
      for (int i = 0; i < polls; ++i) pop_one();
      if (heals) consumer.heal();
    });
  }
  bool pop_one() {
    const auto item = pop(consumer);
    if (!item) return false;
    Explorer::current().check(item->peer < 2 && item->line == popped[item->peer], "an item out of turn");
    if (item->peer >= 2) return false;
    Explorer::current().check(cells[item->peer * 2 + item->line].get() == item->line + 1U, "another message");
    ++popped[item->peer];
    return true;
  }
  void finish() override {
    while (pop_one()) {
    }
    for (int i = 0; i < 2; ++i) {
      Explorer::current().check(popped[i] == pushed[i] || popped[i] == pushed[i] + 1, "an item is lost");
    }
    BasicFifoProducer<Atomic<std::uint64_t>> late{slots, tail};
    Explorer::current().check(late.push({0, popped[0]}), "an empty queue refuses");
    Explorer::current().check(pop(consumer).has_value(), "the queue is not whole");
  }
  std::array<Atomic<std::uint64_t>, 2> slots;
  Atomic<std::uint64_t> tail;
  BasicFifoConsumer<Atomic<std::uint64_t>> consumer;
  std::array<Plain, 4> cells;
  std::uint32_t pushed[2] = {};
  std::uint32_t popped[2] = {};
};

TEST(ModelOfTheFifo, EveryWayOfTwoProducersIsRight) {
  expect_right(Explorer::explore(maker<FifoProgram>(std::array{2U, 1U}, 2, false, std::uint64_t{0}, false)));
}

TEST(ModelOfTheFifo, AProducerKilledAnywhereLeavesItWhole) {
  expect_right(Explorer::explore(maker<FifoProgram>(std::array{1U, 1U}, 2, true, std::uint64_t{0}, true)));
}

TEST(ModelOfTheFifo, AWrongHintChangesNothing) {
  for (const std::uint64_t hint :
       {std::uint64_t{4}, std::uint64_t{7}, ~std::uint64_t{0}}) {  // ahead by whole laps and more
    expect_right(Explorer::explore(maker<FifoProgram>(std::array{1U, 1U}, 1, false, hint, true)));
  }
}

TEST(ModelOfTheFifo, WithoutReleaseItIsFoundWrong) {
  Explorer::Options options;
  options.weak_releases = true;
  const auto outcome =
      Explorer::explore(maker<FifoProgram>(std::array{1U, 1U}, 1, false, std::uint64_t{0}, false), options);
  EXPECT_NE(outcome.failure.find("race"), std::string::npos) << outcome.failure;
}

// ---- Parking and taking back ----------------------------------------------------------------------------------------

/// A sender that sends by box until that is taken back, then by a (here: perfect) other way; a receiver that parks the
/// box, takes it back or not, and looks at it only while it is polled.  As Endpoint::push_to_box and boxes.cpp.
struct ParkingProgram : Explorer::Program {
  explicit ParkingProgram(bool mortal, bool takes_back)
      : ring(4), writer(ring.bytes(), released), reader(ring.bytes(), released) {
    Explorer::current().add_thread(
        [this] {
          const std::uint64_t value = 1;
          for (std::uint16_t i = 0; i < 3; ++i) {
            if (!by_box(i, bytes_of(value))) other_way |= 1U << i;
            ++sent;
          }
        },
        mortal);
    Explorer::current().add_thread([this, takes_back] {
      look();
      park(state);
      parked = true;
      Explorer::current().fence_everybody();
      if (reader.ready()) {
        unpark(state);
        parked = false;
      }
      answer_notifications();
      if (parked && takes_back) {
        reader.finish();
        closed = close_parked(state);
      }
      answer_notifications();
      look();
    });
  }
  bool by_box(std::uint16_t seq, ByteSpan payload) {
    if (!writer.on() || !writer.push(kTag, seq, {}, payload)) return false;
    if (state.load(std::memory_order_relaxed) == wire::kBoxPolled) return true;
    switch (notify(state)) {
      case Notice::none: return true;
      case Notice::notify: notifications.fetch_or(1, std::memory_order_release); return true;
      case Notice::closed: writer.turn_off(); return writer.all_read();
    }
    return false;
  }
  void answer_notifications() {
    if (notifications.load(std::memory_order_relaxed) == 0) return;
    notifications.exchange(0, std::memory_order_acquire);
    if (parked && !closed && is_notified(state)) {
      unpark(state);
      parked = false;
    }
  }
  void look() {
    BoxRecord record{};
    while (!parked && reader.look(record) == decltype(reader)::Look::record) {
      received |= 1U << record.seq;
      reader.pop(record);
    }
  }
  void finish() override {
    answer_notifications();
    const bool died = sent < 3;
    // Of the dead the box is drained whatever its state, as Connections::finish() does; of the living only a polled
    // one.
    if (died && !closed) parked = false;
    look();
    Explorer::current().check((received & other_way) == 0, "a message that came both ways");
    const unsigned all = (1U << sent) - 1;
    Explorer::current().check(((received | other_way) & all) == all, "a message that nobody looks at");
    if (closed && !died) {
      Explorer::current().check(released.load(std::memory_order_relaxed) % kCacheLine == 0, "a counter between lines");
    }
  }
  Ring ring;
  Atomic<std::uint32_t> released;
  Atomic<std::uint32_t> state;
  Atomic<std::uint64_t> notifications;
  BasicBoxWriter<Memory> writer;
  BasicBoxReader<Memory> reader;
  unsigned other_way = 0;
  unsigned received = 0;
  std::uint16_t sent = 0;
  bool parked = false;
  bool closed = false;
};

TEST(ModelOfParking, NoWayLosesOrDoublesAMessage) {
  expect_right(Explorer::explore(maker<ParkingProgram>(false, false)));
}

TEST(ModelOfParking, NorDoesTakingBack) { expect_right(Explorer::explore(maker<ParkingProgram>(false, true))); }

TEST(ModelOfParking, NorDoesASenderKilledAnywhere) {
  expect_right(Explorer::explore(maker<ParkingProgram>(true, true)));
}

TEST(ModelOfParking, WithoutTheFenceAMessageIsFoundLost) {
  Explorer::Options options;
  options.no_fences = true;
  const auto outcome = Explorer::explore(maker<ParkingProgram>(false, false), options);
  EXPECT_NE(outcome.failure.find("nobody looks"), std::string::npos) << outcome.failure;
}

// ---- Sleeping -------------------------------------------------------------------------------------------------------

/// As Module::arm and Endpoint::ring_if_asleep: who sleeps has nothing to receive, or has been notified.
struct SleepProgram : Explorer::Program {
  SleepProgram() {
    Explorer::current().add_thread([this] {
      for (std::uint32_t i = 1; i <= 2; ++i) {
        box.store(i, std::memory_order_release);
        const std::uint32_t sleep = sleeping.load(std::memory_order_relaxed);
        if (sleep != 0 && sleep != notified) notified = sleep;
      }
    });
    Explorer::current().add_thread([this] {
      for (std::uint32_t sleep = 1; sleep <= 2; ++sleep) {
        sleeping.store(sleep, std::memory_order_relaxed);
        Explorer::current().fence_everybody();
        const std::uint32_t there = box.load(std::memory_order_acquire);
        if (there == got) {
          asleep = sleep;  // until it is notified: what comes after is the next message's
          return;
        }
        got = there;
        sleeping.store(0, std::memory_order_relaxed);
      }
    });
  }
  void finish() override {
    if (asleep == 0) return;
    Explorer::current().check(notified == asleep || box.load(std::memory_order_relaxed) == got,
                              "asleep beside a message");
  }
  Atomic<std::uint32_t> box;
  Atomic<std::uint32_t> sleeping;
  std::uint32_t notified = 0;  // the sleep for which the doorbell has been notified last
  std::uint32_t got = 0;
  std::uint32_t asleep = 0;
};

TEST(ModelOfSleeping, NobodySleepsBesideAMessage) { expect_right(Explorer::explore(maker<SleepProgram>())); }

TEST(ModelOfSleeping, WithoutTheFenceItIsFoundWrong) {
  Explorer::Options options;
  options.no_fences = true;
  EXPECT_NE(Explorer::explore(maker<SleepProgram>(), options).failure, "");
}

// ---- Sleep without credit

/// A sender without credit sleeps until a counter advances; a receiver returns credit twice.  As Module::arm() and
/// BackPressure::withdraw() on one side, Receiver::return_credits() and BackPressure::wake_sleepers() on the other.
struct CreditProgram : Explorer::Program {
  CreditProgram() {
    Explorer::current().add_thread([this] {
      for (std::uint32_t sleep = 1; sleep <= 2; ++sleep) {
        seen = counter.load(std::memory_order_acquire);
        sleeping.store(sleep, std::memory_order_relaxed);
        wanted.announce({seen + 1}, false);
        notifications.fetch_or(1, std::memory_order_release);
        Explorer::current().fence_everybody();
        if (!wanted.is_satisfied_by({counter.load(std::memory_order_acquire)}, false)) {
          asleep = sleep;
          return;
        }
        wanted.withdraw();
        sleeping.store(0, std::memory_order_relaxed);
      }
    });
    Explorer::current().add_thread([this] {
      for (made = 1; made <= kReturns; ++made) {
        counter.store(made, std::memory_order_release);
        if (notifications.load(std::memory_order_relaxed) != 0) {
          notifications.exchange(0, std::memory_order_acquire);
          waits = waits || !wanted.is_withdrawn();
        }
        if (waits && wanted.is_withdrawn()) waits = false;
        if (waits && wanted.is_satisfied_by({made}, false)) {
          waits = false;
          const std::uint32_t sleep = sleeping.load(std::memory_order_relaxed);
          if (sleep != 0) notified = sleep;
        }
      }
    });
  }
  void finish() override {
    Explorer::current().check(asleep == 0 || notified == asleep || seen == kReturns,
                              "asleep although a credit has returned");
  }
  static constexpr std::uint32_t kReturns = 2;
  Atomic<std::uint32_t> counter;
  Atomic<std::uint32_t> sleeping;
  Atomic<std::uint64_t> notifications;
  BasicCreditsWanted<Atomic<std::uint32_t>, 1> wanted;
  std::uint32_t seen = 0;  // of the counter when there was no credit
  std::uint32_t made = 0;
  bool waits = false;          // the receiver knows that the sender does
  std::uint32_t notified = 0;  // the sleep for which the doorbell has been notified last
  std::uint32_t asleep = 0;
};

TEST(ModelOfSleepingForCredit, NoSenderSleepsWhenACreditHasReturned) {
  expect_right(Explorer::explore(maker<CreditProgram>()));
}

TEST(ModelOfSleepingForCredit, WithoutTheFenceItIsFoundWrong) {
  Explorer::Options options;
  options.no_fences = true;
  const auto outcome = Explorer::explore(maker<CreditProgram>(), options);
  EXPECT_NE(outcome.failure.find("asleep although a credit has returned"), std::string::npos) << outcome.failure;
}

}  // namespace
}  // namespace opal::btl::sm
