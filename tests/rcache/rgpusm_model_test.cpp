// SPDX-License-Identifier: Apache-2.0
// Random transfers of a peer that allocates and frees, over the cache of remote GPU memory and over a list that is
// searched from end to end: after each step both have the same mappings open, and gave the same answer.
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "opal/rcache/rgpusm.hpp"
#include "tests/rcache/fake_gpu_peer.hpp"

namespace opal::rcache {
namespace {

using test::allocated_at;
using test::FakeOpener;

bool overlap(const gpu::MemoryHandle& a, const gpu::MemoryHandle& b) {
  return a.base < b.base + b.size && b.base < a.base + a.size;
}
bool contains(const gpu::MemoryHandle& a, const gpu::MemoryHandle& b) {
  return a.base <= b.base && b.base + b.size <= a.base + a.size;
}

struct Scenario {
  const char* name;
  bool leave_pinned;
  std::uint64_t size_limit;
  std::size_t room;
  bool refuses_overlaps;
};

/// What should be open.
class Model {
 public:
  explicit Model(const Scenario& scenario) : scenario_(scenario) {}

  struct Entry {
    gpu::MemoryHandle handle;
    int users = 0;
    bool serves = true;
    std::uint64_t last_use = 0;
  };

  /// Nothing: it is mapped, and in use once more.
  std::optional<Errc> get(const gpu::MemoryHandle& wanted) {
    for (Entry& e : entries) {
      if (!e.serves || !contains(e.handle, wanted) || e.handle != wanted) continue;
      ++e.users;
      return std::nullopt;
    }
    for (Entry& e : entries) e.serves = e.serves && !overlap(e.handle, wanted);
    close_unused();
    if (scenario_.size_limit != 0 && wanted.size > scenario_.size_limit) return Errc::limit_reached;
    while (scenario_.size_limit != 0 && bytes() + wanted.size > scenario_.size_limit) {
      if (!evict()) return Errc::limit_reached;
    }
    for (;;) {
      const bool refused =
          scenario_.refuses_overlaps &&
          std::any_of(entries.begin(), entries.end(), [&](const Entry& e) { return overlap(e.handle, wanted); });
      const bool full = entries.size() >= scenario_.room;
      if (!refused && !full) break;
      if (!full) return Errc::busy;              // what is in the way is in use: giving up others would not help
      if (!evict()) return Errc::limit_reached;  // the driver looks at its room first
    }
    entries.push_back({wanted, 1});
    return std::nullopt;
  }

  void give(const gpu::MemoryHandle& handle) {
    Entry& entry = *std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.handle == handle; });
    --entry.users;
    entry.last_use = ++now_;
    close_unused();
  }
  void flush() {
    std::erase_if(entries, [](const Entry& e) { return e.users == 0; });
  }

  std::list<Entry> entries;

 private:
  void close_unused() {
    std::erase_if(entries, [this](const Entry& e) { return e.users == 0 && (!e.serves || !scenario_.leave_pinned); });
  }
  bool evict() {
    auto oldest = entries.end();
    for (auto e = entries.begin(); e != entries.end(); ++e) {
      if (e->users == 0 && (oldest == entries.end() || e->last_use < oldest->last_use)) oldest = e;
    }
    if (oldest == entries.end()) return false;
    entries.erase(oldest);
    return true;
  }
  [[nodiscard]] std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const Entry& e : entries) sum += e.handle.size;
    return sum;
  }

  const Scenario scenario_;
  std::uint64_t now_ = 0;
};

/// The peer's memory: blocks that do not overlap while they live.
class Peer {
 public:
  explicit Peer(std::mt19937_64& random) : random_(random) {}

  void allocate() {
    const auto handle = allocated_at(0x1000 + random_() % 400, 1 + random_() % 60);
    if (std::none_of(live.begin(), live.end(), [&](const auto& other) { return overlap(other, handle); })) {
      live.push_back(handle);
    }
  }
  void free_one() {
    if (live.empty()) return;
    std::swap(live[random_() % live.size()], live.back());
    live.pop_back();
  }

  std::vector<gpu::MemoryHandle> live;

 private:
  std::mt19937_64& random_;
};

class RgpusmAgainstModel : public testing::TestWithParam<Scenario> {
 protected:
  void run(std::uint64_t seed, int steps) {
    std::mt19937_64 random{seed};
    FakeOpener driver;
    driver.room = GetParam().room;
    driver.refuses_overlaps = GetParam().refuses_overlaps;
    Rgpusm cache{
        nullptr, {.leave_pinned = GetParam().leave_pinned, .size_limit = ByteSize{GetParam().size_limit}}, driver};
    Model model{GetParam()};
    Peer peer{random};
    std::vector<std::pair<gpu::MemoryHandle, RemoteGpuMemory>> in_use;
    for (int step = 0; step < steps; ++step) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", step " + std::to_string(step));
      const auto kind = random() % 100;
      if (kind < 10) {
        peer.allocate();
      } else if (kind < 18) {
        peer.free_one();
      } else if (kind < 60 && !peer.live.empty() && in_use.size() < 6) {
        const auto handle = peer.live[random() % peer.live.size()];
        auto got = cache.get(handle);
        const auto refused = model.get(handle);
        ASSERT_EQ(got.has_value(), !refused.has_value());
        if (refused) {
          ASSERT_EQ(got.error().code, *refused) << to_string(got.error());
        } else {
          ASSERT_EQ(driver.open_now.at(*got->at(0, 1)), handle) << "another allocation's mapping";
          in_use.emplace_back(handle, std::move(*got));
        }
      } else if (kind < 99 && !in_use.empty()) {
        std::swap(in_use[random() % in_use.size()], in_use.back());
        model.give(in_use.back().first);
        in_use.pop_back();
      } else if (kind == 99) {
        cache.flush();
        model.flush();
      }
      ASSERT_EQ(driver.open_now.size(), model.entries.size());
      for (const auto& entry : model.entries) ASSERT_TRUE(driver.has(entry.handle));
    }
  }
};

TEST_P(RgpusmAgainstModel, BothHaveTheSameOpenAfterEveryStep) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    run(seed, 5'000);
    if (HasFatalFailure()) return;
  }
}

constexpr std::size_t kNoLimit = SIZE_MAX;
INSTANTIATE_TEST_SUITE_P(Cases, RgpusmAgainstModel,
                         testing::Values(Scenario{"Case1NotPinned", false, 0, kNoLimit, false},
                                         Scenario{"Case2NotPinnedLimited", false, 120, kNoLimit, false},
                                         Scenario{"Case3Pinned", true, 0, kNoLimit, false},
                                         Scenario{"Case4PinnedLimited", true, 150, kNoLimit, false},
                                         Scenario{"Case1DriverRefuses", false, 0, kNoLimit, true},
                                         Scenario{"Case2DriverRefuses", false, 120, kNoLimit, true},
                                         Scenario{"Case3DriverRefuses", true, 0, kNoLimit, true},
                                         Scenario{"Case4DriverRefuses", true, 150, kNoLimit, true},
                                         Scenario{"Case3SmallDriver", true, 0, 5, false},
                                         Scenario{"Case4SmallDriverRefuses", true, 200, 5, true}),
                         [](const auto& info) { return std::string{info.param.name}; });

}  // namespace
}  // namespace opal::rcache
