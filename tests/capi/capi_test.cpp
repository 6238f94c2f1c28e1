// SPDX-License-Identifier: Apache-2.0
// Runs the tests that are written in C.
#include <gtest/gtest.h>

#include "tests/capi/check.h"

#define CAPI_RUN(function, sentence) \
  TEST(CApi, sentence) { EXPECT_STREQ(function(), nullptr); }
CAPI_TESTS(CAPI_RUN)
