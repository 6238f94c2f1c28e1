// SPDX-License-Identifier: Apache-2.0
// A million random steps over a Cache and over the model of its policy; a trace on which they disagree is shrunk to a
// short one before it is shown.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "opal/core/sanitizer.hpp"
#include "tests/rcache/fake_device.hpp"
#include "tests/rcache/model.hpp"
#include "tests/rcache/trace.hpp"

namespace opal::rcache {
namespace {

using test::FakeDevice;
using test::kPage;
using test::Model;
using test::Range;
using test::Step;
using test::Trace;

struct Scenario {
  const char* name;
  Overlap overlap;
  std::size_t device_capacity;
  std::uint64_t count_limit;
  bool leave_pinned;
  Access rights;

  [[nodiscard]] Config config() const {
    return {.leave_pinned = leave_pinned, .count_limit = count_limit, .overlap = overlap};
  }
  [[nodiscard]] std::size_t capacity() const {
    return count_limit != 0 ? std::min<std::size_t>(device_capacity, count_limit) : device_capacity;
  }
};

/// Runs traces over the cache and `model`; says where they part.
class Comparison {
 public:
  Comparison(const Scenario& scenario, std::unique_ptr<Model> model) : model_(std::move(model)) {
    device_.capacity = scenario.device_capacity;
    cache_.emplace(device_, scenario.config(), kPage);
  }

  /// Nothing when they agree on every step.
  std::optional<std::string> run(const Trace& trace) {
    for (std::size_t i = 0; i < trace.size(); ++i) {
      if (auto problem = step(trace[i])) return fmt::format("step {}: {}", i, *problem);
      if (auto problem = compare(i % 16 == 0)) return fmt::format("after step {}: {}", i, *problem);
    }
    return std::nullopt;
  }

 private:
  static constexpr std::size_t kMostBorrowed = 20;
  struct Borrowed {
    Lease lease;
    Range range;
  };

  std::optional<std::string> step(const Step& step) {
    const Range range{(1 + step.page) * kPage, (1 + step.page + step.pages) * kPage};
    switch (step.kind) {
      case Step::Kind::get: return borrowed_.size() < kMostBorrowed ? get(range, step.access) : std::nullopt;
      case Step::Kind::give: return give(step.which);
      case Step::Kind::invalidate:
        if (cache_->invalidate(test::at(range.begin), range.end - range.begin) != model_->invalidate(range))
          return "number of those that became invalid";
        return std::nullopt;
      case Step::Kind::flush:
        cache_->flush();
        model_->flush();
        return std::nullopt;
    }
    return std::nullopt;
  }

  std::optional<std::string> get(const Range& range, Access access) {
    const bool hit = model_->hits(range, access);
    const auto calls = device_.register_calls;
    // Begins and ends in the middle of pages: the cache rounds.
    auto got = cache_->get(test::at(range.begin + 7), range.end - range.begin - 9, access);
    if (hit && device_.register_calls != calls) return "registered anew what the model still has";
    if (!got) {
      if (got.error().code != Errc::limit_reached) return fmt::format("get: {}", opal::to_string(got.error()));
      return hit || model_->make_room() ? std::optional<std::string>{"get found no room"} : std::nullopt;
    }
    const Registration& r = **got;
    const Range made{r.begin(), r.end()};
    if (!r.valid() || !made.contains(range) || !r.allows(access)) return "got something that does not serve";
    if (hit) {
      const auto key = FakeDevice::key_of(r);
      if (std::none_of(model_->entries.begin(), model_->entries.end(),
                       [&](const auto& e) { return e.key == key && e.serves_request(range, access); }))
        return "hit something that should not serve";
      model_->lend(key, range);
    } else {
      if (device_.register_calls == calls) return "hit something that the model has no more";
      if (!range.contains(made) || r.access() != access) return "registered another range or other rights";
      if (!model_->make_room()) return "registered beyond its room";
      model_->registered(FakeDevice::key_of(r), range, access);
    }
    borrowed_.push_back({std::move(*got), range});
    return std::nullopt;
  }

  std::optional<std::string> give(std::size_t which) {
    if (borrowed_.empty()) return std::nullopt;
    std::swap(borrowed_[which % borrowed_.size()], borrowed_.back());
    const auto key = FakeDevice::key_of(*borrowed_.back().lease);
    model_->give(key, borrowed_.back().range);
    borrowed_.pop_back();
    return std::nullopt;
  }

  std::optional<std::string> compare(bool statistics) {
    if (device_.table.size() != model_->entries.size()) return "number of registrations";
    for (const auto& entry : model_->entries) {
      if (device_.table.count(entry.key) == 0) return "undid another registration than the model";
    }
    if (!statistics) return std::nullopt;
    const Statistics now = cache_->statistics();
    if (now.registered.count != model_->entries.size()) return "statistics().registered";
    if (now.idle.count != model_->idle_count()) return "statistics().idle";
    if (now.evictions != model_->evictions) return "statistics().evictions";
    return std::nullopt;
  }

  FakeDevice device_;
  std::unique_ptr<Model> model_;
  std::optional<Cache> cache_;
  std::vector<Borrowed> borrowed_;  // ends before the cache
};

std::optional<std::string> outcome(const Scenario& scenario, const Trace& trace) {
  return Comparison{scenario, test::make_model(scenario.overlap, scenario.capacity(), scenario.leave_pinned)}.run(
      trace);
}

class CacheAgainstModel : public testing::TestWithParam<Scenario> {};

TEST_P(CacheAgainstModel, AgreesOverRandomTraces) {
  const Scenario& scenario = GetParam();
  constexpr bool kSanitized = OPAL_ADDRESS_SANITIZER || OPAL_THREAD_SANITIZER;
  constexpr std::size_t kTraces = kSanitized ? 2 : 10;
  constexpr std::size_t kSteps = kSanitized ? 2'500 : 25'000;  // a million for the four scenarios of each policy
  for (std::uint64_t seed = 1; seed <= kTraces; ++seed) {
    const Trace trace = test::random_trace(seed, kSteps, 200, scenario.rights);
    if (!outcome(scenario, trace)) continue;
    const Trace small = test::shrunk(trace, [&](const Trace& t) { return outcome(scenario, t).has_value(); });
    FAIL() << "seed " << seed << ", " << small.size() << " steps are enough: " << test::to_string(small) << "\n"
           << outcome(scenario, small).value_or("(passes now)");
  }
}

constexpr std::size_t kNoLimit = SIZE_MAX / 2;
constexpr Scenario kScenarios[] = {
    {"ContainingUnlimited", Overlap::containing, kNoLimit, 0, true, 3},
    {"ContainingSmallDevice", Overlap::containing, 30, 0, true, 1},
    {"ContainingOwnLimit", Overlap::containing, kNoLimit, 45, true, 3},
    {"ContainingNotPinned", Overlap::containing, kNoLimit, 0, false, 1},
    {"PageRefcountUnlimited", Overlap::page_refcount, kNoLimit, 0, true, 3},
    {"PageRefcountSmallDevice", Overlap::page_refcount, 30, 0, true, 1},
    {"PageRefcountOwnLimit", Overlap::page_refcount, kNoLimit, 45, true, 3},
    {"PageRefcountNotPinned", Overlap::page_refcount, kNoLimit, 0, false, 1},
};
INSTANTIATE_TEST_SUITE_P(Policies, CacheAgainstModel, testing::ValuesIn(kScenarios),
                         [](const auto& info) { return std::string{info.param.name}; });

TEST(CacheAgainstWrongModel, AFailingTraceOfThousandsOfStepsShrinksToAHandful) {
  // The cache undoes a registration with its last lease, the model keeps it.
  const auto fails = [](const Trace& trace) {
    return Comparison{kScenarios[3], test::make_model(Overlap::containing, kNoLimit, true)}.run(trace).has_value();
  };
  const Trace trace = test::random_trace(1, 5'000, 200, 1);
  ASSERT_TRUE(fails(trace));
  const Trace small = test::shrunk(trace, fails);
  EXPECT_TRUE(fails(small));
  EXPECT_LE(small.size(), 4u) << test::to_string(small);
}

}  // namespace
}  // namespace opal::rcache
