// SPDX-License-Identifier: Apache-2.0
// Runs the tests that are written in C.  Tests that need threads are here.
#include <gtest/gtest.h>

#include "opal/capi/internal.hpp"
#include "tests/am/pair.hpp"
#include "tests/capi/check.h"

#define CAPI_RUN(function, sentence) \
  TEST(CApi, sentence) { EXPECT_STREQ(function(), nullptr); }
CAPI_TESTS(CAPI_RUN)

namespace opal::test {
namespace {

/// A context at level `multiple` with an endpoint to itself, whose operations are done at once.
class CApiThreads : public ::testing::Test {
 protected:
  void SetUp() override {
    opal_context_options_t options = OPAL_INIT(opal_context_options_t);
    options.thread_level = OPAL_THREAD_MULTIPLE;
    ASSERT_EQ(opal_context_open(&options, &context), OPAL_OK);
    const void* bytes = nullptr;
    std::size_t size = 0;
    opal_context_address(context, &bytes, &size);
    ASSERT_EQ(opal_connect(context, bytes, size, &self), OPAL_OK);
    opal_region_t* region = nullptr;
    ASSERT_EQ(opal_register(context, &target, sizeof target, OPAL_REMOTE_ALL, &region), OPAL_OK);
    opal_region_key(region, &bytes, &size);
    ASSERT_EQ(opal_unpack_key(self, bytes, size, &key), OPAL_OK);
  }
  void TearDown() override { opal_context_close(context); }
  template <class Wait, class Change>
  [[nodiscard]] bool is_woken_by(Wait wait, Change change) {
    return test::is_woken_by(capi::endpoint(self).context(), wait, change);
  }
  /// Puts a word `distance` bytes behind the target.
  opal_status_t put(std::uint64_t distance, opal_completion_t& end) {
    const std::uint64_t word = 7;
    return opal_put(self, &word, reinterpret_cast<std::uint64_t>(&target) + distance, &key, sizeof word, &end);
  }

  opal_context_t* context = nullptr;
  opal_endpoint_t* self = nullptr;
  std::uint64_t target = 0;
  opal_remote_key_t key{};
};

TEST_F(CApiThreads, AThreadThatWaitsForACounterHearsThatAnotherThreadsOperationWasDoneAtOnce) {
  opal_counter_t* counter = nullptr;
  ASSERT_EQ(opal_counter_create(context, &counter), OPAL_OK);
  std::uint64_t ended = 0;
  for (const std::uint64_t distance : {std::uint64_t{0}, sizeof target}) {
    ++ended;
    opal_completion_t end{};
    opal_counter_attach(counter, &end);
    EXPECT_TRUE(is_woken_by([&] { (void)opal_counter_wait(counter, ended, -1); },
                            [&] { EXPECT_LE(opal_counter_count(counter, put(distance, end)), OPAL_DONE); }))
        << distance;
    EXPECT_EQ(opal_counter_ended(counter), ended);
  }
  EXPECT_EQ(opal_counter_failures(counter), 1U);
  EXPECT_EQ(opal_counter_wait(counter, ended, -1), OPAL_ERR_INVALID_ARGUMENT) << "the first error";
  opal_counter_destroy(counter);
}

TEST_F(CApiThreads, AThreadThatWaitsForACompletionHearsThatAnotherThreadsOperationWasDoneAtOnce) {
  for (const std::uint64_t distance : {std::uint64_t{0}, sizeof target}) {
    opal_completion_t end{};
    const auto has_ended = [](void* completion) -> int {
      return static_cast<opal_completion_t*>(completion)->finished;
    };
    EXPECT_TRUE(is_woken_by([&] { EXPECT_EQ(opal_wait_until(context, has_ended, &end, -1), 1); },
                            [&] { EXPECT_LE(put(distance, end), OPAL_DONE); }))
        << distance;
    EXPECT_EQ(end.status, distance == 0 ? OPAL_OK : OPAL_ERR_INVALID_ARGUMENT);
  }
  EXPECT_EQ(target, 7U);
}

}  // namespace
}  // namespace opal::test
