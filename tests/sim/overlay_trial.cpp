// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/overlay_trial.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tests/runtime/node_probe.hpp"
#include "tests/sim/overlay_member.hpp"

namespace opal::test {
namespace {

using btl::sim::Random;
using runtime::oob::as_bytes;
using runtime::oob::as_text;
using runtime::overlay::IdSet;
using runtime::overlay::kFirstUserTopic;
using runtime::overlay::Range;
using runtime::overlay::Release;

constexpr std::uint64_t kMillisecond = 1'000'000;
constexpr std::uint64_t kBusy = 60 * kMillisecond;       // wishes and faults come within this time
constexpr std::uint64_t kLongest = 2000 * kMillisecond;  // whatever has not ended by then never does
constexpr std::size_t kWindow = 2000;
constexpr std::size_t kLargest = 600;  // of a message with what is around it
constexpr std::uint64_t kUses = 5;     // of each collective operation
constexpr std::uint16_t kAbsent =
    kFirstUserTopic + 1;  // up: from the operation of this key; down: with its number, too

/// A message says its number; the rest follows from it.
std::string content_of(std::uint64_t number) {
  std::string content{as_text(bytes_of(number))};
  content.append(number * 37 % 400, static_cast<char>(number));
  return content;
}

std::string part_of(Id member, const std::string& key, std::uint64_t use) {
  return (member + use) % 3 == 0 ? std::string{} : fmt::format("{}:{}:{}", member, key, use);
}

class Trial;

/// One member's user: what it wished for and what it got.
class User final : public runtime::overlay::Client {
 public:
  User(Trial& trial, Id id) : trial_(trial), id_(id) {}
  void on_up(Id origin, std::uint16_t topic, ByteSpan content) override;
  void on_down(std::uint16_t topic, ByteSpan content) override;
  void on_release(const Release& release) override;
  [[nodiscard]] IdSet absent(const std::string& key) const override {
    const auto members = absent_from.find(key);
    return members == absent_from.end() ? IdSet{} : members->second;
  }
  void on_lost(Id member, runtime::overlay::Loss) override { lost.add(member); }
  void on_out(const char*) override { out = true; }

  bool out = false;
  IdSet lost;
  std::uint64_t sent = 0;                        // up
  std::map<Id, std::uint64_t> heard;             // root: of each
  std::vector<std::uint64_t> meant;              // numbers that the root sent here
  std::size_t got = 0;                           // of them
  std::map<std::string, std::uint64_t> arrived;  // by key
  std::map<std::string, std::uint64_t> released;
  std::set<std::string> given_up;            // operations to which it comes no more
  std::map<std::string, IdSet> absent_from;  // as far as it has heard

 private:
  void check_parts(const Release& release, std::uint64_t use, const IdSet& expected);
  Trial& trial_;
  const Id id_;
};

class Trial {
 public:
  explicit Trial(const TrialPlan& plan);
  TrialOutcome run();
  void fail(const std::string& what) {
    if (outcome.problem.empty()) outcome.problem = fmt::format("at {} us: {}", world_.now() / 1000, what);
  }

  [[nodiscard]] OverlayMember& member(Id id) { return *world_.members[id]; }
  /// At the root: all are to hear that this member gives up the operation.
  void spread(Id id, const std::string& key);

  std::vector<std::unique_ptr<User>> users;
  std::map<std::string, IdSet> groups;  // participants of the operation with this key
  TrialOutcome outcome;

 private:
  [[nodiscard]] bool healthy(Id id) { return member(id).alive() && !users[id]->out; }
  void plan_wishes();
  void send_up(Id id);
  void send_down(Random random);
  void arrive(Id id, const std::string& key);
  void give_up(Id id, const std::string& key);
  void inflict(const Fault& fault);
  void run_until(std::uint64_t time);
  std::string unsettled();
  void check_bounds();
  /// Does `what` then, or when the member goes on; never if it is gone.
  void at(std::uint64_t time, Id id, std::function<void()> what);

  const TrialPlan plan_;
  OverlayWorld world_;
  std::uint64_t down_number_ = 0;
};

void User::on_up(Id origin, std::uint16_t topic, ByteSpan content) {
  if (id_ == 0 && topic == kAbsent) return trial_.spread(origin, std::string{as_text(content)});
  std::uint64_t number = 0;
  if (id_ != 0 || topic != kFirstUserTopic || !read_object(content, number)) return trial_.fail("a message astray");
  if (number != ++heard[origin]) {
    return trial_.fail(fmt::format("the root heard {} of member {} after {}", number, origin, heard[origin] - 1));
  }
  if (as_text(content) != content_of(number)) trial_.fail("a message up has changed");
  ++trial_.outcome.messages;
}

void User::on_down(std::uint16_t topic, ByteSpan content) {
  Id gone = 0;
  if (id_ != 0 && topic == kAbsent && read_object(content, gone)) {
    absent_from[std::string{as_text(content.subspan(sizeof gone))}].add(gone);
    return trial_.member(id_).node()->recheck();
  }
  std::uint64_t number = 0;
  if (id_ == 0 || topic != kFirstUserTopic || !read_object(content, number)) return trial_.fail("a message astray");
  if (got >= meant.size() || meant[got] != number) {
    return trial_.fail(fmt::format("member {} got message {} of the root instead of {}", id_, number,
                                   got < meant.size() ? meant[got] : 0));
  }
  ++got;
  if (as_text(content) != content_of(number)) trial_.fail("a message down has changed");
  ++trial_.outcome.messages;
}

void User::on_release(const Release& release) {
  const std::string& key = release.name.key;
  const auto group = trial_.groups.find(key);
  if (group == trial_.groups.end()) return trial_.fail("the end of an unknown operation");
  const std::uint64_t use = ++released[key];
  const bool takes_part = group->second.contains(id_);
  if (takes_part && use > arrived[key] && !given_up.contains(key)) {
    return trial_.fail(fmt::format("{} ended at member {} before it arrived", key, id_));
  }
  ++trial_.outcome.releases;
  IdSet expected = group->second;
  expected.remove(release.lost);
  check_parts(release, use, expected);
  IdSet not_lost = release.lost;
  not_lost.remove(trial_.users[0]->lost);
  not_lost.remove(trial_.users[0]->absent(key));
  if (!not_lost.empty()) trial_.fail(fmt::format("{} ended without a member that is not lost", key));
}

void User::check_parts(const Release& release, std::uint64_t use, const IdSet& expected) {
  runtime::overlay::Parts parts;
  for (const Range& range : expected.ranges()) {
    for (Id each = range.begin; each != range.end; ++each) {
      std::string data = part_of(each, release.name.key, use);
      if (!data.empty()) parts.emplace_back(each, std::move(data));
    }
  }
  if (parts != release.parts) trial_.fail(fmt::format("wrong parts of {} at member {}", release.name.key, id_));
}

Trial::Trial(const TrialPlan& plan)
    : plan_(plan),
      world_({.seed = plan.seed, .jitter_ns = 30'000, .loss = plan.loss, .retries = 6, .retry_ns = 20'000}) {
  world_.options = {.count = plan.members,
                    .radix = plan.radix,
                    .beat = 2 * kMillisecond,
                    .silence_timeout = 10 * kMillisecond,
                    .grace = 6 * kMillisecond,
                    .start = 100 * kMillisecond,
                    .ack_delay = kMillisecond,
                    .window = kWindow};
  for (Id id = 0; id < plan.members; ++id) {
    world_.members.push_back(std::make_unique<OverlayMember>(world_, id));
    users.push_back(std::make_unique<User>(*this, id));
  }
  for (Id id = 0; id < plan.members; ++id) member(id).start(*users[id]);
}

void Trial::at(std::uint64_t time, Id id, std::function<void()> what) {
  world_.world.fabric().at(time, [this, id, what = std::move(what)] {
    if (!healthy(id)) return;
    if (member(id).stopped()) return at(world_.now() + kMillisecond, id, what);
    what();
    member(id).service();
  });
}

void Trial::send_up(Id id) { member(id).node()->send_up(kFirstUserTopic, content_of(++users[id]->sent)); }

void Trial::send_down(Random random) {
  IdSet to;
  for (Id id = 1; id < plan_.members; ++id) {
    if (random.chance(0.5)) to.add(id);
  }
  if (random.chance(0.3)) to.add(Range{1, plan_.members});
  if (to.empty()) return;
  member(0).node()->send_down(to, kFirstUserTopic, content_of(++down_number_));
  for (Id id = 1; id < plan_.members; ++id) {
    if (to.contains(id)) users[id]->meant.push_back(down_number_);
  }
}

/// As long as the members take no more it waits.
void Trial::give_up(Id id, const std::string& key) {
  users[id]->given_up.insert(key);
  if (id == 0) return spread(id, key);
  member(id).node()->send_up(kAbsent, key);
}

void Trial::spread(Id id, const std::string& key) {
  const IdSet all{Range{1, plan_.members}};
  member(0).node()->send_down(all, kAbsent, std::string{as_text(bytes_of(id))} + key);
  users[0]->absent_from[key].add(id);
  member(0).node()->recheck();
}

void Trial::arrive(Id id, const std::string& key) {
  if (users[id]->given_up.contains(key)) return;
  const std::uint64_t use = ++users[id]->arrived[key];
  member(id).node()->arrive(key, groups.at(key), 0, part_of(id, key, use));
}

/// Wishes do not depend on faults: taking a fault away changes nothing else.
void Trial::plan_wishes() {
  Random random{plan_.seed * 2 + 1};
  groups["fence"] = IdSet{Range{0, plan_.members}};
  groups["full"] = groups["fence"];
  IdSet& some = groups["some"];
  for (Id id = 0; id < plan_.members; ++id) {
    if (random.chance(0.4)) some.add(id);
  }
  for (const auto& [name, group] : groups) {
    for (Id id = 0; id < plan_.members; ++id) {
      if (!group.contains(id)) continue;
      for (std::uint64_t use = 0; use < kUses; ++use) {
        at(kBusy * use / kUses + random.up_to(kBusy / kUses), id, [this, id, key = name] { arrive(id, key); });
      }
    }
  }
  for (std::uint64_t wish = 0; wish < plan_.wishes; ++wish) {
    const std::uint64_t time = random.up_to(kBusy);
    const Random choices{random.next()};
    const auto id = static_cast<Id>(random.up_to(plan_.members - 1));
    if (id == 0 || wish % 4 == 0) {
      at(time, 0, [this, choices] { send_down(choices); });
    } else {
      at(time, id, [this, id] { send_up(id); });
    }
  }
  for (const auto& [name, group] : groups) {
    for (Id id = 0; id < plan_.members; ++id) {
      if (!group.contains(id) || !random.chance(0.1)) continue;
      at(random.up_to(kBusy), id, [this, id, key = name] { give_up(id, key); });
    }
  }
}

void Trial::inflict(const Fault& fault) {
  btl::sim::Fabric& fabric = world_.world.fabric();
  OverlayMember& victim = member(fault.member);
  switch (fault.kind) {
    case Fault::Kind::kill:
    case Fault::Kind::crash:
      if (victim.alive()) {
        victim.crash(fault.kind == Fault::Kind::kill ? btl::sim::Crash::process : btl::sim::Crash::host);
      }
      return;
    case Fault::Kind::stop:
      victim.stop();
      fabric.at(world_.now() + fault.duration_ns, [&victim] { victim.go_on(); });
      return;
    case Fault::Kind::partition: {
      Random random{fault.seed};
      for (Id id = 1; id < plan_.members; ++id) fabric.set_group(member(id).device(), random.chance(0.2) ? 1 : 0);
      return;
    }
    case Fault::Kind::heal: return fabric.heal();
  }
}

void Trial::run_until(std::uint64_t time) {
  world_.world.fabric().at(time, [] {});
  for (std::uint64_t steps = 0; outcome.problem.empty() && world_.now() < time; ++steps) {
    if (!world_.step()) return fail("nothing happens any more");
    if (steps % 32 == 0) check_bounds();
  }
}

/// What members hold is bounded by what their links and users may have under way.
void Trial::check_bounds() {
  for (Id id = 0; id < plan_.members; ++id) {
    const auto* const node = member(id).node();
    if (!healthy(id)) continue;
    const std::size_t own = (id == 0 ? down_number_ : users[id]->sent) + groups.size() * plan_.members;
    const std::size_t bound = own * kLargest + (kWindow + kLargest) * 2 * plan_.members;
    if (runtime::overlay::NodeProbe::held_bytes(*node) > bound)
      fail(fmt::format("member {} holds {} bytes", id, runtime::overlay::NodeProbe::held_bytes(*node)));
  }
}

/// What is still to come, for people; empty when all is done.
std::string Trial::unsettled() {
  for (Id id = 0; id < plan_.members; ++id) {
    if (!healthy(id)) continue;
    const auto& node = *member(id).node();
    const User& user = *users[id];
    if (!node.attached()) return fmt::format("member {} is not attached", id);
    if (users[0]->lost.contains(id)) return fmt::format("member {} is lost and does not know it", id);
    if (users[0]->heard[id] != user.sent) {
      return fmt::format("the root heard {} of {} messages of member {}", users[0]->heard[id], user.sent, id);
    }
    if (user.got != user.meant.size()) {
      return fmt::format("member {} got {} of {} messages of the root", id, user.got, user.meant.size());
    }
    for (const auto& [key, group] : groups) {
      const auto count = [&, key = key](const std::map<std::string, std::uint64_t>& uses) {
        const auto of_key = uses.find(key);
        return of_key == uses.end() ? 0 : of_key->second;
      };
      const std::uint64_t due = user.given_up.contains(key) ? count(user.arrived) : kUses;
      if (group.contains(id) && count(user.released) < due) {
        return fmt::format("member {} waits for the end of {}", id, key);
      }
    }
    if (runtime::overlay::NodeProbe::held_bytes(node) != 0)
      return fmt::format("member {} still holds {} bytes", id, runtime::overlay::NodeProbe::held_bytes(node));
    if (runtime::overlay::NodeProbe::open_operations(node) != 0)
      return fmt::format("member {} has open operations", id);
  }
  for (Id id = 0; id < plan_.members; ++id) {
    if (!healthy(id) && !users[0]->lost.contains(id)) return fmt::format("it is not known that member {} is lost", id);
  }
  return {};
}

TrialOutcome Trial::run() {
  plan_wishes();
  for (const Fault& fault : plan_.faults) {
    world_.world.fabric().at(fault.time_ns, [this, &fault] { inflict(fault); });
  }
  run_until(kBusy + 1);
  world_.world.fabric().heal();
  world_.world.fabric().set_loss(0);
  std::string left = "not looked yet";
  while (outcome.problem.empty() && !(left = unsettled()).empty() && world_.now() < kLongest) {
    run_until(world_.now() + 2 * kMillisecond);
  }
  if (!left.empty()) fail(left);
  std::set<Id> touched;
  for (const Fault& fault : plan_.faults) touched.insert(fault.member);
  for (Id id = 0; id < plan_.members; ++id) {
    const bool untouched = !plan_.separates() && !touched.contains(id);
    if (untouched && (users[id]->out || users[0]->lost.contains(id))) {
      fail(fmt::format("member {} is out, but nothing happened to it", id));
    }
    if (healthy(id) && id != 0 && member(id).node()->parent() != member(id).node()->tree().parent(id)) {
      ++outcome.attached_anew;
    }
  }
  for (const Range& range : users[0]->lost.ranges()) outcome.lost += range.end - range.begin;
  outcome.time_ns = world_.now();
  return outcome;
}

}  // namespace

bool TrialPlan::separates() const {
  return std::any_of(faults.begin(), faults.end(), [](const Fault& fault) {
    return fault.kind == Fault::Kind::stop || fault.kind == Fault::Kind::partition;
  });
}

TrialPlan plan_of(std::uint64_t seed, const TrialFaults& wanted, double loss) {
  Random random{seed};
  TrialPlan plan{.seed = seed,
                 .members = static_cast<std::uint32_t>(2 + random.up_to(18)),
                 .radix = static_cast<unsigned>(1 + random.up_to(3)),
                 .loss = loss,
                 .wishes = 50 + random.up_to(250),
                 .faults = {}};
  std::vector<Fault::Kind> kinds;
  if (wanted.kills) kinds.push_back(Fault::Kind::kill);
  if (wanted.crashes) kinds.push_back(Fault::Kind::crash);
  if (wanted.stops) kinds.push_back(Fault::Kind::stop);
  if (wanted.partitions) kinds.insert(kinds.end(), {Fault::Kind::partition, Fault::Kind::heal});
  if (kinds.empty()) return plan;
  for (std::uint64_t count = random.up_to(6); count > 0; --count) {
    plan.faults.push_back({kinds[random.up_to(kinds.size() - 1)], random.up_to(kBusy),
                           static_cast<std::uint32_t>(1 + random.up_to(plan.members - 2)),
                           random.up_to(40 * kMillisecond), random.next()});
  }
  return plan;
}

TrialOutcome run_trial(const TrialPlan& plan) { return Trial{plan}.run(); }

TrialPlan shrink(TrialPlan plan) {
  const auto still_fails = [](const TrialPlan& smaller) { return !run_trial(smaller).problem.empty(); };
  for (std::size_t i = plan.faults.size(); i-- > 0;) {
    TrialPlan smaller = plan;
    smaller.faults.erase(smaller.faults.begin() + static_cast<std::ptrdiff_t>(i));
    if (still_fails(smaller)) plan = smaller;
  }
  for (TrialPlan smaller = plan; (smaller.wishes /= 2) != plan.wishes;) {
    if (!still_fails(smaller)) break;
    plan = smaller;
  }
  return plan;
}

std::string describe(const TrialPlan& plan) {
  constexpr const char* kNames[] = {"kill", "crash", "stop", "partition", "heal"};
  std::string text = fmt::format("{} members, radix {}, {} wishes, loss {}; faults:", plan.members, plan.radix,
                                 plan.wishes, plan.loss);
  for (const Fault& fault : plan.faults) {
    text += fmt::format(" [{} us {} {}{}]", fault.time_ns / 1000, kNames[static_cast<int>(fault.kind)], fault.member,
                        fault.kind == Fault::Kind::stop ? fmt::format(" for {} us", fault.duration_ns / 1000) : "");
  }
  return text;
}

}  // namespace opal::test
