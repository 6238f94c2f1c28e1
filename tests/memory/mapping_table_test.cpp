// SPDX-License-Identifier: Apache-2.0
// The tree of mappings against a plain array of pages, its depth, and what it does when it is full.
#include "opal/memory/address_space/mapping_table.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>

#include "tests/memory/table_ranges.hpp"

namespace opal::memory {
namespace {

constexpr std::uintptr_t kPage = 4096;

class Table : public ::testing::Test {
 protected:
  void SetUp() override {
    void* const memory = ::mmap(nullptr, sizeof(SharedMappings), PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    shared.reset(static_cast<SharedMappings*>(memory));
    auto made = MappingTable::create(*shared);
    ASSERT_TRUE(made);
    table = std::make_unique<MappingTable>(*made);
  }
  [[nodiscard]] Result<void> check(std::uintptr_t page, std::uintptr_t pages, std::uint32_t wanted) const {
    return MappingView{*shared}.check(page * kPage, pages * kPage, wanted);
  }
  void assign(std::uintptr_t page, std::uintptr_t pages, std::uint32_t access) const {
    table->assign({page * kPage, (page + pages) * kPage}, access);
  }
  struct Unmap {
    void operator()(SharedMappings* s) const { ::munmap(s, sizeof *s); }
  };
  std::unique_ptr<SharedMappings, Unmap> shared;
  std::unique_ptr<MappingTable> table;
};

TEST_F(Table, AgreesWithAnArrayOfPagesOverRandomChanges) {
  constexpr std::size_t kPages = 300;
  std::array<std::uint32_t, kPages + 1> pages{};  // the last is never mapped
  std::mt19937 random{1};
  static constexpr std::uint32_t kAccesses[] = {0, 1, 3, 7, 3 | kExcluded};
  for (int step = 0; step < 20'000; ++step) {
    const std::size_t first = 1 + random() % (kPages - 1);
    const std::size_t length = 1 + random() % std::min<std::size_t>(20, kPages - first);
    const Range range{first * kPage, (first + length) * kPage};
    if (random() % 4 == 0) {
      const std::uint32_t keep = random() % 2 == 0 ? ~kWritable : ~kExcluded;
      table->change(range, keep, kReadable);
      for (std::size_t p = first; p < first + length; ++p) {
        if (pages[p] != 0) pages[p] = (pages[p] & keep) | kReadable;
      }
    } else {
      const std::uint32_t access = kAccesses[random() % std::size(kAccesses)];
      table->assign(range, access);
      std::fill_n(pages.begin() + static_cast<std::ptrdiff_t>(first), length, access);
    }
    std::vector<MappedRange> wanted;
    for (std::size_t p = 1; p <= kPages; ++p) {
      if (pages[p] == 0) continue;
      if (pages[p] == pages[p - 1]) {
        wanted.back().range.end += kPage;
      } else {
        wanted.push_back({{p * kPage, (p + 1) * kPage}, pages[p]});
      }
    }
    ASSERT_EQ(ranges_of(*shared), wanted) << "step " << step;
    const std::size_t from = random() % kPages;
    const std::size_t to = from + 1 + random() % std::min<std::size_t>(5, kPages - from);
    bool readable = true;
    for (std::size_t p = from; p < to; ++p) {
      readable = readable && (pages[p] & (kReadable | kExcluded)) == kReadable;
    }
    const bool excludes =
        std::any_of(pages.begin(), pages.end(), [](std::uint32_t access) { return (access & kExcluded) != 0; });
    ASSERT_EQ(static_cast<bool>(check(from, to - from, kReadable)), readable) << "step " << step;
    ASSERT_EQ(table->excludes_some(), excludes) << "step " << step;
  }
}

TEST_F(Table, IsReplacedByAnotherListInPlaceAndKeepsWhatIsExcluded) {
  assign(10, 4, 7);
  assign(20, 4, 7 | kExcluded);
  assign(30, 1, 3);
  table->begin_replacing();
  table->replace({{12 * kPage, 16 * kPage}, 3});
  table->replace({{22 * kPage, 26 * kPage}, 3});
  table->end_replacing();
  const std::vector<MappedRange> wanted{
      {{12 * kPage, 16 * kPage}, 3}, {{22 * kPage, 24 * kPage}, 3 | kExcluded}, {{24 * kPage, 26 * kPage}, 3}};
  EXPECT_EQ(ranges_of(*shared), wanted);
}

TEST_F(Table, HoldsMoreRangesThanTheKernelAllowsByDefaultThoughTheyComeInOrder) {
  constexpr std::uintptr_t kRanges = 100'000;
  for (std::uintptr_t i = 0; i < kRanges; ++i) assign(1 + 2 * i, 1, 3);  // in order: the worst for a plain tree
  for (std::uintptr_t i = 0; i < kRanges; i += 97) {
    EXPECT_TRUE(check(1 + 2 * i, 1, kReadable));
    EXPECT_FALSE(check(2 + 2 * i, 1, kReadable));
  }
  assign(1, 2 * kRanges, 0);
  EXPECT_TRUE(ranges_of(*shared).empty());
}

TEST_F(Table, ThatIsFullLeavesOutOneRangeAndSaysSo) {
  for (std::uintptr_t i = 1; i < SharedMappings::kCapacity; ++i) assign(2 * i, 1, 3);
  EXPECT_EQ(check(1, 1, kReadable).error().code, Errc::invalid_argument);
  const std::uintptr_t beyond = 2 * SharedMappings::kCapacity;
  assign(beyond, 1, 3);
  EXPECT_EQ(check(beyond, 1, kReadable).error().code, Errc::limit_reached);
  EXPECT_TRUE(check(2 * (SharedMappings::kCapacity - 1), 1, kReadable)) << "the others are as they were";
  assign(2, 1, 0);
  assign(beyond, 1, 3);
  EXPECT_TRUE(check(beyond, 1, kReadable));
}

TEST_F(Table, ReadersSeeEachChangeWholeOrNotAtAll) {
  std::atomic<bool> stop{false};
  std::thread writer{[&] {
    for (std::uintptr_t i = 0; !stop.load(std::memory_order_relaxed); ++i) {
      assign(1000, 64, 3);                                                // one range ...
      for (std::uintptr_t p = 0; p < 64; p += 2) assign(1000 + p, 1, 7);  // ... or many, but always readable
      assign(2000 + i % 500, 3, i % 2 == 0 ? 3 : 0);
    }
  }};
  while (!check(1000, 64, kReadable)) std::this_thread::yield();
  int seen = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto answer = check(1000, 64, kReadable);
    seen += answer || answer.error().code == Errc::busy ? 0 : 1;
  }
  stop = true;
  writer.join();
  EXPECT_EQ(seen, 0);
}

TEST_F(Table, ATreeThatMakesNoSenseEndsALookUp) {
  assign(1, 1, 3);
  SharedMappings::Entry& entry = shared->entries[shared->root.load()];
  entry.right = shared->root.load();  // a loop
  EXPECT_EQ(check(5, 1, kReadable).error().code, Errc::busy);
  entry.right = UINT32_MAX;  // outside
  EXPECT_EQ(check(5, 1, kReadable).error().code, Errc::busy);
}

}  // namespace
}  // namespace opal::memory
