// SPDX-License-Identifier: Apache-2.0
// Two VCIs of two ranks in one process: what threads on different VCIs share, and how they wait for both.
#include "mpi_shim/p2p/waits/vcis.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <future>
#include <numeric>
#include <thread>
#include <vector>

namespace mpi_shim::p2p {
namespace {

using namespace std::chrono_literals;

constexpr int kTag = 7;
constexpr auto kForEver = 60s;  // a bound for what must come at once

constexpr unsigned kVcis = 2;

/// One of two ranks.
class Rank {
 public:
  Rank(int number, const am::Config& waits) : vcis(waits, am::ThreadLevel::multiple) {
    for (unsigned i = 0; i < kVcis; ++i) vci_[i].open(*this, number, i, waits);
  }
  ~Rank() {
    for (Vci& vci : vci_) vci.engine->close_channel(vci.channel);
  }
  static void introduce(Rank& a, Rank& b) {
    for (unsigned i = 0; i < kVcis; ++i) {
      a.vci_[i].other = b.vci_[i].context.get();
      b.vci_[i].other = a.vci_[i].context.get();
    }
  }

  [[nodiscard]] Engine& engine(unsigned vci) { return *vci_[vci].engine; }
  [[nodiscard]] Channel& channel(unsigned vci) { return vci_[vci].channel; }
  [[nodiscard]] Peer& peer(unsigned vci) { return vci_[vci].peers[1 - vci_[vci].channel.rank]; }

  int send(unsigned vci, std::uint64_t word) {
    return engine(vci).send(channel(vci), Buffer::of_bytes(&word, sizeof word), 1 - channel(vci).rank, kTag,
                            Mode::standard);
  }
  std::uint64_t receive(unsigned vci) {
    std::uint64_t word = 0;
    const Outcome outcome =
        engine(vci).receive(channel(vci), Buffer::of_bytes(&word, sizeof word), MPI_ANY_SOURCE, MPI_ANY_TAG);
    EXPECT_EQ(outcome.error, MPI_SUCCESS);
    return word;
  }
  Request& start_receiving(unsigned vci, std::uint64_t& word) {
    Request& request =
        engine(vci).new_receive(channel(vci), Buffer::of_bytes(&word, sizeof word), 1 - channel(vci).rank, kTag);
    request.start();
    return request;
  }
  Vcis vcis;

 private:
  struct Vci final : Connector, am::Observer {
    void open(Rank& rank, int number, unsigned index, const am::Config& waits) {
      opal::config::Store store;
      store.set("am_transports", "sm");
      store.set("am_spin", std::to_string(waits.spin.count()));
      am::Options options;
      options.threads = am::ThreadLevel::multiple;
      options.observer = this;
      context = std::move(*am::Context::open(store, options));
      engine = std::move(*Engine::open(*context, *this, Config{}, false));
      std::iota(pointers.begin(), pointers.end(), peers.data());
      channel.context = 2 * index;  // of whatever communicator lives there
      channel.rank = number;
      channel.peers = pointers;
      engine->open_channel(channel);
      rank.vcis.join(*engine);
    }
    Result<am::Endpoint*> connect(int /*process*/) override { return context->connect(other->address()); }
    using am::Observer::on_peer_failed;
    void on_peer_failed(int /*process*/, const Error& /*why*/) noexcept override {}

    std::unique_ptr<am::Context> context;
    am::Context* other = nullptr;
    std::unique_ptr<Engine> engine;
    std::array<Peer, 2> peers;
    std::array<Peer*, 2> pointers;
    Channel channel;
  };
  std::array<Vci, kVcis> vci_;
};

class MpiVcis : public ::testing::Test {
 protected:
  void start(am::Config waits = {}) {
    for (int i = 0; i < 2; ++i) ranks_[static_cast<std::size_t>(i)] = std::make_unique<Rank>(i, waits);
    Rank::introduce(a(), b());
  }
  Rank& a() { return *ranks_[0]; }
  Rank& b() { return *ranks_[1]; }

 private:
  std::array<std::unique_ptr<Rank>, 2> ranks_;
};

/// Everything that threads do on one VCI goes on while somebody else has the other VCI's locks for ever.
TEST_F(MpiVcis, ThreadsOnDifferentVcisTakeNoCommonLock) {
  for (const std::chrono::microseconds spin : {50us, 0us}) {  // the second time every wait sleeps
    am::Config waits;
    waits.spin = spin;
    start(waits);
    for (unsigned vci = 0; vci < kVcis; ++vci) {
      const unsigned taken = 1 - vci;
      const am::Lock::Guard first{a().engine(taken).lock()};
      const am::Lock::Guard second{b().engine(taken).lock()};
      const auto play = [vci](Rank& rank, bool begins) {
        for (std::uint64_t i = 0; i < 2000; ++i) {
          if (begins) {
            EXPECT_EQ(rank.send(vci, i), MPI_SUCCESS);
          }
          EXPECT_EQ(rank.receive(vci), i);
          if (!begins) {
            EXPECT_EQ(rank.send(vci, i), MPI_SUCCESS);
          }
        }
      };
      auto begins = std::async(std::launch::async, [&] { play(a(), true); });
      auto answers = std::async(std::launch::async, [&] { play(b(), false); });
      ASSERT_EQ(begins.wait_for(kForEver), std::future_status::ready) << "it waits for the other VCI's lock";
      ASSERT_EQ(answers.wait_for(kForEver), std::future_status::ready) << "it waits for the other VCI's lock";
    }
  }
}

TEST_F(MpiVcis, OneWaitIsForRequestsOfAllVcis) {
  for (const std::chrono::microseconds spin : {50us, 0us}) {
    am::Config waits;
    waits.spin = spin;
    start(waits);
    for (unsigned round = 0; round < 200; ++round) {
      const unsigned sends = round % kVcis;
      std::array<std::uint64_t, kVcis> words{};
      std::array<Request*, kVcis> requests{};
      for (unsigned vci = 0; vci < kVcis; ++vci) requests[vci] = &a().start_receiving(vci, words[vci]);
      std::thread sender{[&] { EXPECT_EQ(b().send(sends, round), MPI_SUCCESS); }};
      a().vcis.wait_until(a().vcis.all(), [&] { return requests[0]->done() || requests[1]->done(); });
      sender.join();
      EXPECT_TRUE(requests[sends]->done());
      EXPECT_EQ(words[sends], round);
      EXPECT_EQ(b().send(1 - sends, round), MPI_SUCCESS);
      a().vcis.wait(*requests[1 - sends]);
      for (Request* request : requests) request->put_back();
    }
  }
}

/// Another thread's progress brings what a sleeper waits for, on a VCI that is one of several for it.
TEST_F(MpiVcis, ASleeperIsWokenByProgressOfAnotherThread) {
  am::Config waits;
  waits.spin = 0us;
  start(waits);
  std::atomic<bool> over{false};
  std::thread progresses{[&] {
    while (!over.load()) {
      (void)a().engine(1).progress();
      std::this_thread::yield();
    }
  }};
  for (std::uint64_t round = 0; round < 500; ++round) {
    std::array<std::uint64_t, kVcis> words{};
    Request& request = a().start_receiving(1, words[1]);
    Request& idle = a().start_receiving(0, words[0]);
    std::thread sender{[&] { EXPECT_EQ(b().send(1, round), MPI_SUCCESS); }};
    a().vcis.wait_until(a().vcis.all(), [&] { return request.done(); });
    sender.join();
    EXPECT_EQ(words[1], round);
    request.put_back();
    EXPECT_TRUE(idle.cancel());
    idle.put_back();
  }
  over.store(true);
  progresses.join();
}

/// A message that its receiver has to fetch, or to answer, while it waits on another VCI.
TEST_F(MpiVcis, AMessageMovesOnAVciWhereNobodyWaits) {
  for (const std::chrono::microseconds spin : {50us, 0us}) {
    am::Config waits;
    waits.spin = spin;
    start(waits);
    const std::vector<std::byte> large(4 << 20, std::byte{42});
    for (unsigned vci = 0; vci < kVcis; ++vci) {
      std::vector<std::byte> in(large.size());
      Request& receive = a().engine(vci).new_receive(a().channel(vci), Buffer::of_bytes(in.data(), in.size()), 1, kTag);
      receive.start();
      auto other = std::async(std::launch::async, [&] {
        EXPECT_EQ(b().engine(vci).send(b().channel(vci), Buffer::of_bytes(large.data(), large.size()), 0, kTag,
                                       Mode::synchronous),
                  MPI_SUCCESS);
        EXPECT_EQ(b().send(1 - vci, 1), MPI_SUCCESS);
      });
      EXPECT_EQ(a().receive(1 - vci), 1U);
      EXPECT_EQ(other.wait_for(kForEver), std::future_status::ready);
      EXPECT_TRUE(receive.done());
      EXPECT_EQ(in, large);
      receive.put_back();
    }
  }
}

/// A VCI that has no way to a process hears of its end from one that has.
TEST_F(MpiVcis, ALossOnOneVciEndsWhatWaitsOnAnother) {
  am::Config waits;
  waits.spin = 0us;
  start(waits);
  EXPECT_EQ(b().send(0, 1), MPI_SUCCESS);
  EXPECT_EQ(a().receive(0), 1U);
  std::uint64_t word = 0;
  Request& receive = a().start_receiving(1, word);
  auto waiting = std::async(std::launch::async, [&] { a().vcis.wait(receive); });
  a().engine(0).lost_elsewhere(a().peer(0));  // has a way of its own, by which it would hear
  a().engine(1).lost_elsewhere(a().peer(1));
  ASSERT_EQ(waiting.wait_for(kForEver), std::future_status::ready);
  EXPECT_EQ(receive.outcome().error, MPI_ERR_PROC_ABORTED);
  receive.put_back();
  EXPECT_EQ(a().engine(1).failures(), 1U);
  EXPECT_EQ(a().send(1, 1), MPI_ERR_PROC_ABORTED);
  EXPECT_EQ(a().engine(0).progress() + a().engine(0).failures(), 0U);
  EXPECT_EQ(a().send(0, 2), MPI_SUCCESS);
  EXPECT_EQ(b().receive(0), 2U);
}

/// What had arrived before the news is received; only then nothing more can come.
TEST_F(MpiVcis, WhatArrivedBeforeALossIsReceived) {
  start();
  EXPECT_EQ(b().send(1, 5), MPI_SUCCESS);
  a().engine(1).lost_elsewhere(a().peer(1));
  EXPECT_EQ(a().receive(1), 5U);
}

}  // namespace
}  // namespace mpi_shim::p2p
