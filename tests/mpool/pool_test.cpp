// SPDX-License-Identifier: Apache-2.0
// Every kind of pool through its interface, and allocators stacked on it.
#include "opal/mpool/pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "opal/core/config/store.hpp"
#include "opal/core/system/mapping.hpp"
#include "opal/mpool/shared_directory.hpp"
#include "opal/mpool/shared_pool.hpp"
#include "tests/harness/in_child.hpp"

namespace opal::mpool {
namespace {

class EveryPool : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto opened = open(GetParam());
    ASSERT_TRUE(opened) << to_string(opened.error());
    pool_ = std::move(opened).value();
  }
  [[nodiscard]] bool shared() const { return std::string{GetParam()}.find("shared") != std::string::npos; }

  std::unique_ptr<Pool> pool_;
};

TEST_P(EveryPool, BlocksAreWholePagesThatCanBeWrittenToTheLastByte) {
  const std::size_t page = base_page_size();
  for (const std::size_t size : {std::size_t{1}, page - 1, page, page + 1, 3 * page}) {
    const auto block = pool_->allocate(size, 1);
    ASSERT_TRUE(block) << to_string(block.error());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(*block) % page, 0u);
    std::memset(*block, 0x11, align_up(size, page));
  }
  EXPECT_EQ(pool_->usage().blocks, 5u);
  EXPECT_GE(pool_->usage().used, 8 * page);
}

TEST_P(EveryPool, HonoursAlignmentsBeyondThePage) {
  for (std::size_t alignment = base_page_size(); alignment <= kHugePage; alignment *= 2) {
    const auto block = pool_->allocate(100, alignment);
    ASSERT_TRUE(block) << to_string(block.error());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(*block) % alignment, 0u);
  }
  EXPECT_EQ(pool_->allocate(100, 3000).error().code, Errc::invalid_argument);
}

TEST_P(EveryPool, RefusesADoubleFreeAForeignAddressAndAnImpossibleSize) {
  const auto block = pool_->allocate(10'000);
  ASSERT_TRUE(block && pool_->deallocate(*block));
  EXPECT_EQ(pool_->deallocate(*block).error().code, Errc::invalid_argument);
  std::byte local{};
  EXPECT_EQ(pool_->deallocate(&local).error().code, Errc::invalid_argument);
  EXPECT_FALSE(pool_->allocate(SIZE_MAX));
  EXPECT_FALSE(pool_->allocate(SIZE_MAX / 2));
  EXPECT_EQ(pool_->usage().blocks, 0u);
}

TEST_P(EveryPool, PeersFindTheBytesOfASharedPoolInItsFile) {
  const auto block = pool_->allocate(5000);
  ASSERT_TRUE(block);
  const std::uint32_t number = shared_pool_of(*block, 5000);
  ASSERT_EQ(number != 0, shared());
  if (!shared()) return;
  const auto access = open_shared_pool(number);
  ASSERT_TRUE(access) << to_string(access.error());
  const std::uint64_t offset = reinterpret_cast<std::uint64_t>(*block) + 4999 - access->base;
  (*block)[4999] = std::byte{0x42};
  auto view = SharedPool::attach(access->fd.get());
  ASSERT_TRUE(view) << to_string(view.error());
  EXPECT_EQ(view->data()[offset], std::byte{0x42});
  view->data()[offset] = std::byte{0x43};
  EXPECT_EQ((*block)[4999], std::byte{0x43});
}

TEST_P(EveryPool, AForkedChildChangesNothingInItsParentsPool) {
  const auto block = pool_->allocate(5000);
  ASSERT_TRUE(block);
  std::memset(*block, 0x42, 5000);
  EXPECT_EQ(test::in_child([&] {
              const auto more = pool_->allocate(5000);
              const bool expected = shared() ? !more && more.error().code == Errc::not_supported : more.has_value();
              pool_.reset();
              return expected ? 0 : 1;
            }),
            0);
  EXPECT_EQ(std::count(*block, *block + 5000, std::byte{0x42}), 5000);
  EXPECT_TRUE(pool_->allocate(5000));
}

INSTANTIATE_TEST_SUITE_P(Hints, EveryPool, testing::Values("heap", "hugepage", "shared", "hugepage,shared"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), ',', '_');
                           return name;
                         });

TEST(PoolHint, AnUnknownWordIsAnErrorThatNamesItAndTheKnownOnes) {
  const auto pool = open("hugepage,sharde");
  ASSERT_FALSE(pool);
  EXPECT_EQ(pool.error().code, Errc::invalid_argument);
  const std::string text = pool.error().where;
  for (const char* part : {"sharde", "heap", "hugepage", "shared"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

TEST(PoolHint, ContradictionsAndEmptyHintsAreErrors) {
  for (const char* hint : {"", ",", "heap,shared", "shared,heap", "shared,"}) {
    const auto pool = open(hint);
    ASSERT_FALSE(pool) << hint;
    EXPECT_EQ(pool.error().code, Errc::invalid_argument) << hint;
  }
}

TEST(PoolHint, OrderAndBlanksDoNotMatter) {
  const auto pool = open("shared, hugepage");
  ASSERT_TRUE(pool);
  const auto block = (*pool)->allocate(1);
  ASSERT_TRUE(block);
  EXPECT_NE(shared_pool_of(*block, 1), 0U);
}

TEST(PoolHint, SharedPoolsTakeTheirSizeFromTheConfiguration) {
  config::Store store;
  store.set("mpool_shared_size", "8M");
  const auto config = store.load(kGroup);
  ASSERT_TRUE(config) << to_string(config.error());
  const auto pool = open("shared", *config);
  ASSERT_TRUE(pool);
  EXPECT_EQ((*pool)->allocate(9 << 20).error().code, Errc::limit_reached);
  ASSERT_TRUE((*pool)->allocate(1));
  EXPECT_EQ(ByteSize{(*pool)->usage().managed}, 256_KiB);
}

TEST(HugePool, AsksTheKernelForHugePagesWhenNoneAreReserved) {
  const auto pool = open("hugepage");
  ASSERT_TRUE(pool);
  if (::access("/sys/kernel/mm/transparent_hugepage", F_OK) != 0) {
    GTEST_SKIP() << "needs transparent huge pages: this kernel has none";
  }
  const auto block = (*pool)->allocate(kHugePage);
  ASSERT_TRUE(block);
  // The kernel shows the advice ("hg"), or the reserved pages ("ht"), for the mapping that holds the block.
  std::ifstream maps{"/proc/self/smaps"};
  std::string line;
  bool here = false;
  bool advised = false;
  while (std::getline(maps, line)) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char dash = 0;
    std::istringstream words{line};
    if (words >> std::hex >> begin >> dash >> end && dash == '-') {
      const auto address = reinterpret_cast<std::uintptr_t>(*block);
      here = begin <= address && address < end;
    } else if (here && line.rfind("VmFlags:", 0) == 0) {
      advised = line.find(" hg") != std::string::npos || line.find(" ht") != std::string::npos;
    }
  }
  EXPECT_TRUE(advised);
}

}  // namespace
}  // namespace opal::mpool
