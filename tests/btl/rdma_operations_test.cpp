// SPDX-License-Identifier: Apache-2.0
// What a flush waits for in the table of one-sided operations.
#include "opal/btl/shared/rdma_operations.hpp"

#include <gtest/gtest.h>

#include "tests/btl/emulation/fake_transport.hpp"

namespace opal::btl {
namespace {

using Kind = RdmaOperation::Kind;

struct CountedCompletion : Completion {
  CountedCompletion() {
    fn = [](Completion& self) noexcept { ++static_cast<CountedCompletion&>(self).calls; };
  }
  int calls = 0;
};

struct RdmaOperationsTest : ::testing::Test {
  RdmaOperation& begin(Kind kind, Endpoint& to) { return *table.begin(kind, to, unused, this); }

  test::FakePair pair{1000};
  Endpoint& one = pair.a.module.endpoint();
  Endpoint& other = pair.b.module.endpoint();
  RdmaOperations table;
  Completion unused;
  CountedCompletion flushed;
};

TEST_F(RdmaOperationsTest, AFlushWaitsForEarlierPutsAndAtomicsOnItsEndpointAlone) {
  RdmaOperation& put = begin(Kind::put, one);
  RdmaOperation& get = begin(Kind::get, one);
  RdmaOperation& elsewhere = begin(Kind::put, other);
  RdmaOperation& atomic = begin(Kind::atomic, one);
  ASSERT_EQ(table.flush(&one, flushed), Post::queued);
  RdmaOperation& later = begin(Kind::put, one);
  table.finish(later, {});
  table.finish(get, {});
  table.finish(elsewhere, {});
  table.finish(put, {});
  EXPECT_EQ(flushed.calls, 0);
  table.finish(atomic, {});
  EXPECT_EQ(flushed.calls, 1);
  EXPECT_EQ(table.flush(&one, flushed), Post::done);
}

TEST_F(RdmaOperationsTest, AFlushOfAllEndpointsCountsOperationsThatEndWithoutALookAtFlushes) {
  RdmaOperation& refused = begin(Kind::put, one);
  RdmaOperation& put = begin(Kind::put, other);
  ASSERT_EQ(table.flush(nullptr, flushed), Post::queued);
  (void)table.end(refused);
  EXPECT_EQ(flushed.calls, 0);
  table.finish(put, {});
  EXPECT_EQ(flushed.calls, 1);
}

TEST_F(RdmaOperationsTest, SeveralFlushesEndEachInItsTurn) {
  RdmaOperation& first = begin(Kind::put, one);
  ASSERT_EQ(table.flush(&one, flushed), Post::queued);
  RdmaOperation& second = begin(Kind::put, other);
  CountedCompletion both;
  ASSERT_EQ(table.flush(nullptr, both), Post::queued);
  table.finish(second, {});
  EXPECT_EQ(flushed.calls + both.calls, 0);
  table.finish(first, {});
  EXPECT_EQ(flushed.calls, 1);
  EXPECT_EQ(both.calls, 1);
}

}  // namespace
}  // namespace opal::btl
