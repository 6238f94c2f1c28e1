// SPDX-License-Identifier: Apache-2.0
// Three Contexts over the simulated fabric run a fixed exchange, once without a fault, which counts its events; then
// once for each event, each fault and each side, with the fault by turns before the next event, or before the software
// has handled the last one.  What has to hold is in actor.hpp; here: each one that lives comes to its end within
// kBound, sees exactly what the fault took from it, reaches the others afterwards, and leaves nothing behind.
// OPAL_SIM_CAMPAIGN_TABLE=FILE appends a row for each fault; docs/results/fault-campaign.md has their sums.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string_view>

#include "opal/btl/rails/wire.hpp"
#include "opal/btl/shared/rdma_wire.hpp"
#include "opal/core/sanitizer.hpp"
#include "opal/memory/events/monitor.hpp"
#include "tests/sim/actor.hpp"

namespace opal::test {
namespace {

using btl::sim::Crash;
using PacketKind = btl::sim::Packet::Kind;

enum class Fault : std::uint8_t {
  none,
  process_killed,  // its devices tell the peers
  host_killed,     // silence
  device_killed,   // the process goes on without
  cut,             // the node is not reached any more
  // The transports mend these, nothing is seen above:
  outage,  // a cut for less than the devices' retries
  stop,    // of its software, for a while
  // One of two rails, for good:
  first_rail_cut,
  second_rail_cut,
  second_device_killed,
};

const char* name(Fault fault) {
  constexpr const char* kNames[] = {"none", "process killed", "host killed",     "device killed",       "cut", "outage",
                                    "stop", "first rail cut", "second rail cut", "second device killed"};
  return kNames[static_cast<std::size_t>(fault)];
}

/// Where the fault strikes.
struct Point {
  Fault fault = Fault::none;
  std::uint32_t victim = 0;
  std::uint64_t event = 0;  // so many have happened
  bool unhandled = false;   // and the software has not run since the last
};

struct Outcome {
  std::uint64_t events = 0;
  bool undisturbed = false;  // all came to the end of the exchange
  std::uint64_t time_ns = 0;
  std::uint64_t succeeded = 0;  // operations
  std::uint64_t messages = 0;
  std::uint64_t failures = 0;
  std::uint64_t longest_wait_ns = 0;
  std::uint64_t last_end_ns = 0;  // after the fault
  std::vector<std::uint64_t> history;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

struct Hit {
  PacketKind kind;
  Tag tag;
  friend auto operator<=>(const Hit&, const Hit&) = default;
};

struct Exchange {
  const char* name;
  void (*steps)(Actor& a, Actor& b, Actor& c);
  std::set<PacketKind> kinds;  // that faults have to hit
  std::set<Tag> tags = {};     // of messages
  std::uint32_t rails = 1;
  std::uint32_t window = 64;
  bool address_space = false;
  bool loses_rail = false;
  bool loses = false;  // messages also without a fault: a side leaves while another sends
};

void PrintTo(const Exchange& exchange, std::ostream* out) { *out << exchange.name; }

constexpr std::uint64_t kRetry = 20'000;  // ns
constexpr std::uint32_t kRetries = 5;
constexpr std::uint64_t kOutage = 60'000;  // < kRetry * kRetries
constexpr std::uint64_t kStop = 300'000;
constexpr std::uint64_t kBound = 1'000'000;  // ns, simulated, from the fault to the last completion or news of it

std::array<ActorMemory, kActors>& memories() {
  static const auto all = std::make_unique<std::array<ActorMemory, kActors>>();  // every run fills what it uses
  return *all;
}

class Trial {
 public:
  Trial(const Exchange& exchange, const Point& point)
      : point_(point),
        world_({.jitter_ns = 500, .retries = kRetries, .retry_ns = kRetry}, exchange.rails),
        shared_(world_) {
    config::Store settings;
    settings.set("btl_sim_window", std::to_string(exchange.window));
    settings.set("rcache_grdma_max_chunk", "32K");
    for (std::size_t i = 0; i < kActors; ++i) actors_[i] = std::make_unique<Actor>(shared_, i, memories()[i], settings);
    exchange.steps(*actors_[0], *actors_[1], *actors_[2]);
  }

  Outcome run() {
    go();
    Outcome outcome;
    outcome.events = events_;
    outcome.undisturbed = all_finished();
    shared_.gave_up = true;
    for (int round = 0; round < 2; ++round) {  // the second: of what the first has released
      for_each_living([](Actor& actor) { actor.probe(); });
      go();
    }
    EXPECT_TRUE(all_finished()) << "an actor waits for ever";
    outcome.last_end_ns = shared_.last_end_ns - std::min(shared_.last_end_ns, fault_ns_);
    check_who_is_gone();
    go_on();
    for_each_living([&](Actor& actor) {
      actor.check();
      outcome.succeeded += actor.succeeded();
      outcome.messages += actor.messages();
      outcome.failures += actor.failures();
    });
    outcome.longest_wait_ns = shared_.longest_wait_ns;
    outcome.time_ns = world_.now_ns();
    outcome.history = shared_.history;
    for_each_living([](Actor& actor) { actor.end(); });
    world_.run_out();
    for (std::uint32_t rail = 0; rail < world_.rails(); ++rail) {
      const btl::sim::FabricUse use = world_.fabric(rail).use();
      EXPECT_EQ(use, btl::sim::FabricUse{})
          << use.nodes << " nodes, " << use.links << " links, " << use.packets << " packets are left";
    }
    return outcome;
  }

  /// What each event of the first part was.
  [[nodiscard]] const std::vector<Hit>& hits() const noexcept { return hits_; }

 private:
  template <class Function>
  void for_each_living(Function function) {
    for (const auto& actor : actors_) {
      if (actor->alive()) function(*actor);
    }
  }

  [[nodiscard]] bool all_finished() {
    bool all = true;
    for_each_living([&](Actor& actor) { all = all && actor.finished(); });
    return all;
  }

  /// Until nothing is left to happen.
  void go() {
    for (;;) {
      if (point_.unhandled) strike_at_point();
      settle();
      if (!point_.unhandled) strike_at_point();
      const auto next = world_.next_event();
      if (!next) return;
      hits_.push_back({next->kind, next->kind == PacketKind::message ? next->tag : Tag{0}});
      world_.step();
      ASSERT_LT(++events_, 100'000U) << "something goes on for ever";
    }
  }

  void settle() {
    bool any = true;
    while (any) {
      world_.settle();
      any = false;
      for (const auto& actor : actors_) {
        const bool advanced = actor->advance();
        any = world_.progress(actor->index()) || advanced || any;  // rails have work that no packet brings
      }
    }
  }

  void strike_at_point() {
    if (point_.fault == Fault::none || struck_ || events_ != point_.event) return;
    struck_ = true;
    fault_ns_ = world_.now_ns();
    Actor& victim = *actors_[point_.victim];
    switch (point_.fault) {
      case Fault::process_killed: return victim.kill(Crash::process);
      case Fault::host_killed: return victim.kill(Crash::host);
      case Fault::cut:
      case Fault::outage:
        for (std::uint32_t rail = 0; rail < world_.rails(); ++rail) {
          btl::sim::Fabric& fabric = world_.fabric(rail);
          fabric.set_group(point_.victim, 1);
          if (point_.fault == Fault::outage) fabric.at(fabric.now_ns() + kOutage, [&fabric] { fabric.heal(); });
        }
        return;
      case Fault::device_killed:
        shared_.without_device = point_.victim;
        for (std::uint32_t rail = 0; rail < world_.rails(); ++rail) {
          world_.fabric(rail).crash(point_.victim, Crash::device);
        }
        return;
      case Fault::first_rail_cut: return world_.fabric(0).set_group(point_.victim, 1);
      case Fault::second_rail_cut: return world_.fabric(1).set_group(point_.victim, 1);
      case Fault::second_device_killed: return world_.fabric(1).crash(point_.victim, Crash::device);
      default: break;
    }
    world_.stop(point_.victim);
    world_.fabric().at(world_.fabric().now_ns() + kStop, [this] { world_.go_on(point_.victim); });
  }

  [[nodiscard]] bool separated(const Actor& one, const Actor& other) const {
    const bool alone = point_.fault == Fault::cut || point_.fault == Fault::device_killed;
    return alone && (one.index() == point_.victim || other.index() == point_.victim);
  }

  void check_who_is_gone() {
    for (const auto& one : actors_) {
      for (const auto& other : actors_) {
        if (one == other || !one->alive()) continue;
        if (!other->alive() || separated(*one, *other)) {
          EXPECT_FALSE(one->works(*other)) << one->index() << " has not noticed that " << other->index() << " is gone";
        }
      }
    }
  }

  /// Those that live reach each other, again where they have to.
  void go_on() {
    for (std::uint32_t rail = 0; rail < world_.rails(); ++rail) world_.fabric(rail).heal();
    for_each_pair([](Actor& one, Actor& other) {
      if (one.index() < other.index()) one.reconnect(other);
    });
    go();
    for_each_pair([](Actor& one, Actor& other) {
      ASSERT_TRUE(one.works(other)) << one.index() << " does not reach " << other.index();
      one.say(other, 2);
    });
    go();
    for_each_pair([](Actor& one, Actor& other) { EXPECT_TRUE(one.works(other)); });
  }

  template <class Function>
  void for_each_pair(Function function) {
    for_each_living([&](Actor& one) {
      for_each_living([&](Actor& other) {
        const bool for_good = point_.fault == Fault::device_killed && separated(one, other);
        if (&one != &other && !for_good) function(one, other);
      });
    });
  }

  const Point point_;
  SimWorld world_;
  Actor::Shared shared_;
  std::array<std::unique_ptr<Actor>, kActors> actors_;
  std::vector<Hit> hits_;
  std::uint64_t events_ = 0;
  std::uint64_t fault_ns_ = 0;
  bool struck_ = false;
};

// --- Exchanges

/// Both connect, leave while the other sends, and come back.
void connections(Actor& a, Actor& b, Actor& c) {
  const auto meet = [&] {
    for (Actor* actor : {&a, &b, &c}) actor->meet();
  };
  for (std::uint64_t round = 0; round < 4; ++round) {
    a.connect(b);
    b.connect(a);
    c.connect(a);
    a.send(b, 3);
    b.send(a, 3);
    a.await(b, 1 + round % 3);
    a.leave(b);  // what still comes is answered with a reset
    b.await_failure(a);
    b.leave(a);
    b.connect(a);
    b.send(a, 2);
    a.await_peer(b);
    a.await(b, 2);
    a.send(b, 1);
    b.await(a, 1);
    c.send(a, 2);
    a.await_peer(c);
    a.await(c, 2);
    a.leave(c);
    c.await_failure(a);
    meet();
    b.leave(a);
    c.leave(a);
    a.await_failure(b);
    a.leave(b);
    meet();
  }
}

/// More than the windows hold, each way, as copies, from queues and in fragments.
void messages(Actor& a, Actor& b, Actor& c) {
  a.connect(b);
  a.send(b, 40);
  a.send_fragment(b, 700);
  a.queue(b, 6, 300);
  b.await_peer(a);
  b.queue(a, 12, 100);
  b.await(a, 41);
  b.send(a, 24);
  c.connect(a);
  c.connect(b);
  c.queue(a, 8, 50);
  c.send(b, 26);
  a.await(b, 36);
  a.await_peer(c);
  a.send(c, 5);
  c.await(a, 5);
}

void one_sided(Actor& a, Actor& b, Actor& c) {
  a.connect(b);
  a.put(b, 300'000);  // pieces of 16 KiB, two at a time
  a.get(b, 270'000);
  a.put(b, 64);  // travels in the packet
  a.get(b, 128);
  a.put(b, 8'000);
  a.flush(b);
  b.await_peer(a);
  b.get(a, 290'000);
  b.put(a, 240'000);
  b.wait();
  c.connect(b);
  c.put(b, 150'000);
  c.get(b, 3'000);
  a.wait();
  a.send(b, 1);
  b.await(a, 1);
  c.wait();
}

void rails(Actor& a, Actor& b, Actor& c) {
  a.connect(b);
  a.send(b, 3);
  b.await_peer(a);
  b.send(a, 3);
  b.await(a, 3);
  a.await(b, 3);
  a.put(b, 300'000);
  b.get(a, 300'000);
  a.add(b);
  c.connect(b);
  c.send(b, 40);  // half a window: confirmed by itself
  c.put(b, 20'000);
  a.wait();
  a.put(b, 300'000);  // both rails are there by now
  a.flush(b);
  a.wait();
  b.wait();
  c.wait();
  b.await_peer(c);
  b.await(c, 40);
  a.leave(b);
  b.await_failure(a);
}

/// What moves when a rail breaks goes by the other, once nothing comes through the first.
void broken_rail(Actor& a, Actor& b, Actor& c) {
  a.connect(b);
  c.connect(b);
  b.await_peer(a);
  a.put(b, 300'000);
  b.send(a, 1);
  a.await(b, 1);
  a.wait();
  a.put(b, 290'000);
  a.get(b, 290'000);
  b.put(a, 290'000);
  a.send(b, 2);
  a.lose_rail();
  a.send(b, 2);
  a.wait();
  b.wait();
  b.send(a, 2);
  c.put(b, 20'000);
  c.send(b, 2);
  b.await(a, 4);
  a.await(b, 3);
  a.add(b);
  a.flush(b);
  c.wait();
  a.wait();
}

void atomics(Actor& a, Actor& b, Actor& c) {
  a.connect(b);
  c.connect(b);
  for (int i = 0; i < 28; ++i) {
    a.add(b);
    c.add(b);
  }
  b.await_peer(a);
  b.await_peer(c);
  for (int i = 0; i < 20; ++i) {
    b.add(a);
    b.add(c);
  }
  a.flush(b);
  a.wait();
  b.wait();
  c.wait();
  a.add(b);
  a.wait();
}

/// Buffers that are exposed for one get each, and an address space whose pieces are lent.
void exposed(Actor& a, Actor& b, Actor& c) {
  b.lend_all();
  a.connect(b);
  c.connect(a);
  for (int i = 0; i < 3; ++i) a.offer(b, 20'000);
  b.await_peer(a);
  b.offer(a, 50'000);
  c.offer(a, 9'000);
  a.put(b, 60'000);
  a.get(b, 60'000);
  a.put(b, 500);  // by messages
  a.get(b, 500);
  a.add(b);
  a.flush(b);
  a.wait();
  a.await_offers();
  b.await_offers();
  c.await_offers();
  c.connect(b);
  c.put(b, 30'000);
  c.wait();
}

void checkpoints(Actor& a, Actor& b, Actor& c) {
  a.connect(b);
  b.connect(c);
  c.connect(a);
  a.await_peer(c);
  b.await_peer(a);
  c.await_peer(b);
  a.put(b, 20'000);
  b.get(c, 20'000);
  c.add(a);
  for (Actor* actor : {&a, &b, &c}) actor->wait();
  for (int round = 0; round < 2; ++round) {
    a.queue(b, 10, 100);
    b.queue(c, 10, 100);
    c.queue(a, 10, 100);
    for (Actor* actor : {&a, &b, &c}) actor->checkpoint();
    a.send(b, 2);
    b.send(c, 2);
    a.put(b, 20'000);  // registered anew
    b.add(c);
    for (Actor* actor : {&a, &b, &c}) actor->wait();
  }
}

using enum btl::sim::Packet::Kind;

const Exchange kExchanges[] = {
    {"connections", connections, {connect, accept, disconnect, message, failure}, {}, 1, 64, false, false, true},
    {"messages", messages, {connect, accept, message}, {}, 1, 4},
    {"one_sided", one_sided, {request, response, message}},
    {"rails", rails, {connect, accept, disconnect, message, request, response}, {btl::rails::wire::kTag}, 2},
    {"broken_rail",
     broken_rail,
     {connect, accept, message, request, response},
     {btl::rails::wire::kTag},
     2,
     64,
     false,
     true},
    {"atomics", atomics, {request, response}},
    {"exposed",
     exposed,
     {request, response, message},
     {btl::wire::kLendRequest, btl::wire::kLent, btl::wire::kLentReturn, btl::wire::kPutPiece, btl::wire::kGetRequest,
      btl::wire::kGetPiece, btl::wire::kAtomicRequest, btl::wire::kReply},
     1,
     8,
     true},
    {"checkpoints", checkpoints, {message, request, response}, {btl::wire::kMarker}, 1, 4},
};

class SimCampaign : public ::testing::TestWithParam<Exchange> {};
INSTANTIATE_TEST_SUITE_P(Exchanges, SimCampaign, ::testing::ValuesIn(kExchanges),
                         [](const auto& info) { return std::string{info.param.name}; });

/// Of one fault.
struct Row {
  std::uint64_t runs = 0;
  std::uint64_t longest_wait_ns = 0;
  std::uint64_t last_end_ns = 0;
};

/// A sanitizer looks at the code that runs, which is the same at most events, and makes each run several times slower.
constexpr std::uint64_t kStride = OPAL_ADDRESS_SANITIZER || OPAL_THREAD_SANITIZER ? 7 : 1;

TEST_P(SimCampaign, AFaultAtAnyEventIsSurvivedByAllThatItLeaves) {
  const Exchange& exchange = GetParam();
  (void)Trial{kExchanges[0], {}}.run();  // the first Context chooses the monitor
  if (exchange.address_space && (memory::chosen_monitor()->monitor == nullptr ||
                                 std::string_view{memory::chosen_monitor()->monitor} != "patcher")) {
    GTEST_SKIP() << "needs patcher: x86-64, and a program that starts with one thread";
  }
  Trial reference{exchange, {}};
  const Outcome undisturbed = reference.run();
  const std::uint64_t events = undisturbed.events;
  ASSERT_TRUE(undisturbed.undisturbed && !HasFailure());
  ASSERT_TRUE((Trial{exchange, {}}.run() == undisturbed)) << "the same seed gives another run";

  std::set<Hit> hit;
  std::vector<std::pair<Fault, Row>> table;
  for (auto fault = Fault::process_killed; fault <= Fault::second_device_killed;
       fault = static_cast<Fault>(static_cast<int>(fault) + 1)) {
    if (fault >= Fault::first_rail_cut && (exchange.rails == 1 || exchange.loses_rail)) break;
    const bool harmless = fault >= Fault::outage;
    Row& row = table.emplace_back(fault, Row{}).second;
    for (std::uint64_t event = 0; event < events; event += kStride) {
      for (std::uint32_t victim = 0; victim < kActors; ++victim) {
        const Point point{fault, victim, event, (event / kStride + victim) % 2 == 1};
        SCOPED_TRACE(std::string{name(fault)} + ", actor " + std::to_string(victim) + ", event " +
                     std::to_string(event) + (point.unhandled ? ", unhandled" : ""));
        const Outcome outcome = Trial{exchange, point}.run();
        EXPECT_LT(outcome.last_end_ns, kBound);
        // A peer that leaves over a rail which is cut then is found gone by sending.
        EXPECT_TRUE(outcome.undisturbed || !harmless || fault >= Fault::first_rail_cut);
        if (harmless && !exchange.loses) {
          EXPECT_EQ(outcome.failures, undisturbed.failures) << "a fault that the transport mends is seen above";
          EXPECT_EQ(outcome.succeeded, undisturbed.succeeded);
          EXPECT_EQ(outcome.messages, undisturbed.messages);
        }
        if (event % 16 == 0 && exchange.rails == 1) {  // rails look at the real clock, too
          EXPECT_TRUE((Trial{exchange, point}.run() == outcome)) << "the same fault gives another run";
        }
        ++row.runs;
        row.longest_wait_ns = std::max(row.longest_wait_ns, outcome.longest_wait_ns);
        row.last_end_ns = std::max(row.last_end_ns, outcome.last_end_ns);
        if (HasFailure()) return;
      }
      hit.insert(reference.hits()[event]);
    }
  }
  if (kStride != 1) return;  // at some events only, among which not every kind need be
  for (const PacketKind kind : exchange.kinds) {
    EXPECT_TRUE(std::any_of(hit.begin(), hit.end(), [&](const Hit& each) { return each.kind == kind; }))
        << "no fault at a packet of kind " << static_cast<int>(kind);
  }
  for (const Tag tag : exchange.tags)
    EXPECT_TRUE(hit.contains({message, tag})) << "no fault at a message of tag " << tag;

  std::ofstream rows;
  if (const char* const file = std::getenv("OPAL_SIM_CAMPAIGN_TABLE")) rows.open(file, std::ios::app);
  for (const auto& [fault, row] : table) {
    rows << "| " << exchange.name << " | " << events << " | " << name(fault) << " | " << row.runs << " | "
         << row.longest_wait_ns / 1000 << " | " << row.last_end_ns / 1000 << " |\n";
  }
}

}  // namespace
}  // namespace opal::test
