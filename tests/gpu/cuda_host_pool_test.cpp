// SPDX-License-Identifier: Apache-2.0
// Pinned host memory as a pool.
#include <gtest/gtest.h>

#include <cstring>

#include "opal/gpu/copies/pinned.hpp"
#include "opal/mpool/pool.hpp"
#include "tests/gpu/program.hpp"

namespace opal::gpu::test {
namespace {

class CudaHostPool : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = mpool::open("cuda_host");
    ASSERT_TRUE(opened) << to_string(opened.error());
    pool_ = std::move(*opened);
  }
  CudaProgram program_;
  std::unique_ptr<mpool::Pool> pool_;
};

TEST_F(CudaHostPool, BlocksAreHostMemoryThatTheDriverKnows) {
  const auto block = pool_->allocate(10'000);
  ASSERT_TRUE(block) << to_string(block.error());
  std::memset(*block, 0x11, 10'000);
  EXPECT_TRUE(is_host(*block));
  EXPECT_EQ(inspect(*block)->kind, MemoryKind::pinned);
  EXPECT_EQ(inspect(*block + 9'999)->kind, MemoryKind::pinned);
  EXPECT_EQ(pool_->usage().blocks, 1u);
  ASSERT_TRUE(pool_->deallocate(*block));
  EXPECT_EQ(inspect(*block)->kind, MemoryKind::host);
  EXPECT_FALSE(pool_->deallocate(*block)) << "twice";
}

TEST_F(CudaHostPool, ItsEndUndoesEveryRegistration) {
  if (cuda_double::control() == nullptr) GTEST_SKIP() << kNeedsDouble;
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(pool_->allocate(4096));
  EXPECT_EQ(cuda_double::control()->count(Count::allocations), 10u);
  pool_.reset();
  EXPECT_EQ(cuda_double::control()->count(Count::allocations), 0u);
}

TEST_F(CudaHostPool, WhatCannotBePinnedIsNotHandedOut) {
  if (cuda_double::control() == nullptr) GTEST_SKIP() << kNeedsDouble;
  cuda_double::control()->fail("cuMemHostRegister", CUDA_ERROR_OUT_OF_MEMORY);
  const auto block = pool_->allocate(4096);
  ASSERT_FALSE(block);
  EXPECT_EQ(block.error().code, Errc::no_memory);
  EXPECT_EQ(pool_->usage().blocks, 0u);
}

TEST_F(CudaHostPool, BlocksOutliveTheContextsOfTheProgram) {
  const auto block = pool_->allocate(4096);
  ASSERT_TRUE(block);
  ASSERT_EQ(cuDevicePrimaryCtxReset(0), CUDA_SUCCESS);
  std::memset(*block, 0x22, 4096);
  EXPECT_TRUE(pool_->deallocate(*block));
}

TEST(CudaHostPoolHint, StandsAlone) {
  for (const char* hint : {"cuda_host,shared", "heap,cuda_host", "hugepage,cuda_host"}) {
    const auto pool = mpool::open(hint);
    ASSERT_FALSE(pool) << hint;
    EXPECT_EQ(pool.error().code, Errc::invalid_argument);
  }
}

}  // namespace
}  // namespace opal::gpu::test
