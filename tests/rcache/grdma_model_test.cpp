// SPDX-License-Identifier: Apache-2.0
// Random traces over a Grdma and over a model: a plain list of registrations searched from end to end.
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "opal/rcache/grdma.hpp"
#include "tests/rcache/fake_device.hpp"

namespace opal::rcache {
namespace {

using test::at;
using test::FakeDevice;
using test::kPage;

/// What the cache should hold: `idle` is in order of last use, `dead` waits to be undone.
class Model {
 public:
  struct Entry {
    std::uint64_t key;
    std::uintptr_t begin;
    std::uintptr_t end;
    Access access;
    int users;
    bool valid;
  };
  using Iterator = std::list<Entry>::iterator;

  explicit Model(std::size_t capacity, bool leave_pinned) : capacity_(capacity), leave_pinned_(leave_pinned) {}

  [[nodiscard]] bool hits(std::uintptr_t begin, std::uintptr_t end, Access access) const {
    return std::any_of(entries.begin(), entries.end(), [&](const Entry& e) {
      return e.valid && e.begin <= begin && end <= e.end && (access & ~e.access) == 0;
    });
  }

  /// What a miss may register: the request, or a registration that contains it with the rights of both.
  [[nodiscard]] bool may_register(const Registration& got, std::uintptr_t begin, std::uintptr_t end,
                                  Access access) const {
    const auto is = [&](std::uintptr_t b, std::uintptr_t e, Access a) {
      return got.begin() == b && got.end() == e && got.access() == a;
    };
    bool some_contains = false;
    for (const Entry& e : entries) {
      if (!e.valid || e.begin > begin || e.end < end) continue;
      some_contains = true;
      if (is(e.begin, e.end, e.access | access)) return true;
    }
    return !some_contains && is(begin, end, access);
  }

  /// The miss that registered `got`: the order in which others had to go for it is the expected log.
  std::vector<std::uint64_t> miss(const Registration& got, std::uintptr_t begin, std::uintptr_t end) {
    if (got.begin() != begin || got.end() != end || replaces_idle(got)) retire_replaced(got);
    std::vector<std::uint64_t> gone = std::move(dead);
    dead.clear();
    while (entries.size() + 1 > capacity_) {
      const auto oldest = find(idle.front());
      gone.push_back(oldest->key);
      idle.erase(idle.begin());
      entries.erase(oldest);
    }
    entries.push_back({FakeDevice::key_of(got), got.begin(), got.end(), got.access(), 1, true});
    return gone;
  }

  void hit(std::uint64_t key) {
    const auto entry = find(key);
    if (entry->users++ == 0) std::erase(idle, key);
  }

  /// Returns the key if the last user of something that may not stay went away.
  std::optional<std::uint64_t> put(std::uint64_t key) {
    const auto entry = find(key);
    if (--entry->users > 0) return std::nullopt;
    if (entry->valid && leave_pinned_) {
      idle.push_back(key);
      return std::nullopt;
    }
    entries.erase(entry);
    return key;
  }

  std::size_t invalidate(std::uintptr_t begin, std::uintptr_t end) {
    std::size_t count = 0;
    for (auto entry = entries.begin(); entry != entries.end();) {
      const auto next = std::next(entry);
      if (entry->valid && entry->begin < end && begin < entry->end) {
        ++count;
        entry->valid = false;
        if (entry->users == 0) kill(entry);
      }
      entry = next;
    }
    return count;
  }

  std::list<Entry> entries;  // everything registered except the dead
  std::vector<std::uint64_t> idle;
  std::vector<std::uint64_t> dead;

 private:
  Iterator find(std::uint64_t key) {
    return std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.key == key; });
  }
  void kill(Iterator entry) {
    dead.push_back(entry->key);
    std::erase(idle, entry->key);
    entries.erase(entry);
  }
  [[nodiscard]] Iterator replaced_by(const Registration& got) {
    return std::find_if(entries.begin(), entries.end(), [&](const Entry& e) {
      return e.valid && e.users == 0 && e.begin == got.begin() && e.end == got.end();
    });
  }
  [[nodiscard]] bool replaces_idle(const Registration& got) { return replaced_by(got) != entries.end(); }
  void retire_replaced(const Registration& got) {
    if (const auto old = replaced_by(got); old != entries.end()) kill(old);
  }

  const std::size_t capacity_;
  const bool leave_pinned_;
};

struct Scenario {
  const char* name;
  std::size_t device_capacity;
  std::uint64_t count_limit;
  bool leave_pinned;
  bool several_rights;
};

class GrdmaAgainstModel : public testing::TestWithParam<Scenario> {};

TEST_P(GrdmaAgainstModel, AgreesOverARandomTrace) {
  const Scenario& scenario = GetParam();
  constexpr std::size_t kMostBorrowed = 20;
  constexpr int kSteps = 100'000;
  constexpr unsigned kSeed = 20090507;
  std::mt19937 random{kSeed};
  FakeDevice device;
  device.capacity = scenario.device_capacity;
  Grdma cache{device, {.leave_pinned = scenario.leave_pinned, .count_limit = scenario.count_limit}, kPage};
  const std::size_t capacity = scenario.count_limit != 0
                                   ? std::min(scenario.device_capacity, std::size_t{scenario.count_limit})
                                   : scenario.device_capacity;
  Model model{capacity, scenario.leave_pinned};
  std::vector<Registration*> borrowed;
  std::uint64_t hits = 0;
  std::uint64_t evictions = 0;

  for (int step = 0; step < kSteps; ++step) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << " step " << step);
    device.deregistered.clear();
    std::vector<std::uint64_t> expected_gone;
    const std::uintptr_t address = kPage + random() % (200 * kPage);
    const std::size_t length = 1 + random() % (random() % 8 == 0 ? 40 * kPage : 3 * kPage);
    const std::uintptr_t begin = address / kPage * kPage;
    const std::uintptr_t end = (address + length + kPage - 1) / kPage * kPage;
    const auto kind = random() % 100;
    if (kind < 48 && borrowed.size() < kMostBorrowed) {
      const Access access = scenario.several_rights ? 1 + random() % 3 : 1;
      const bool expected_hit = model.hits(begin, end, access);
      const auto calls = device.register_calls;
      const auto got = cache.get(at(address), length, access);
      ASSERT_TRUE(got) << to_string(got.error());
      ASSERT_TRUE((*got)->valid() && (*got)->contains(begin, end) && (*got)->allows(access));
      ASSERT_EQ(device.register_calls == calls, expected_hit);
      if (expected_hit) {
        ++hits;
        model.hit(FakeDevice::key_of(**got));
      } else {
        ASSERT_TRUE(model.may_register(**got, begin, end, access));
        expected_gone = model.miss(**got, begin, end);
      }
      borrowed.push_back(*got);
    } else if (kind < 96 && !borrowed.empty()) {
      std::swap(borrowed[random() % borrowed.size()], borrowed.back());
      if (const auto gone = model.put(FakeDevice::key_of(*borrowed.back()))) expected_gone = {*gone};
      cache.put(borrowed.back());
      borrowed.pop_back();
    } else if (kind >= 96) {
      ASSERT_EQ(cache.invalidate(at(address), length), model.invalidate(begin, end));
    }
    // Which of several dead ones goes first is the cache's own affair; the order of evictions is not.
    const auto dead_first = [&](std::vector<std::uint64_t> keys, std::size_t dead) {
      std::sort(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(std::min(dead, keys.size())));
      return keys;
    };
    const Statistics now = cache.statistics();
    const std::size_t evicted = now.evictions - std::exchange(evictions, now.evictions);
    ASSERT_LE(evicted, expected_gone.size());
    const std::size_t dead = expected_gone.size() - evicted;
    ASSERT_EQ(dead_first(device.deregistered, dead), dead_first(expected_gone, dead));

    ASSERT_EQ(now.hits, hits);
    ASSERT_EQ(now.idle.count, model.idle.size());
    ASSERT_EQ(now.registered.count, model.entries.size() + model.dead.size());
    ASSERT_EQ(device.table.size(), now.registered.count);
    ASSERT_LE(device.most, capacity);
  }
  EXPECT_GT(hits, 1000u) << "a trace that never hits shows nothing";
  for (Registration* registration : borrowed) cache.put(registration);
  cache.flush();
  EXPECT_TRUE(device.table.empty());
  EXPECT_EQ(cache.statistics().registered.bytes, 0u);
}

constexpr std::size_t kNoLimit = SIZE_MAX / 2;

INSTANTIATE_TEST_SUITE_P(Traces, GrdmaAgainstModel,
                         testing::Values(Scenario{"Unlimited", kNoLimit, 0, true, false},
                                         Scenario{"SmallDevice", 30, 0, true, false},
                                         Scenario{"OwnLimit", kNoLimit, 30, true, false},
                                         Scenario{"NotPinned", kNoLimit, 0, false, false},
                                         Scenario{"RightsSmallDevice", 45, 0, true, true},
                                         Scenario{"RightsUnlimited", kNoLimit, 0, true, true}),
                         [](const auto& info) { return std::string{info.param.name}; });

}  // namespace
}  // namespace opal::rcache
