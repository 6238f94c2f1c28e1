// SPDX-License-Identifier: Apache-2.0
#include "opal/core/text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace opal {
namespace {

using ::testing::ElementsAre;

TEST(Text, SplitKeepsEmptyParts) {
  EXPECT_THAT(split("a:b", ':'), ElementsAre("a", "b"));
  EXPECT_THAT(split("", ':'), ElementsAre(""));
  EXPECT_THAT(split(":a:", ':'), ElementsAre("", "a", ""));
}

TEST(Text, ASeparatorAtTheEndOfAListAddsNoElement) {
  EXPECT_THAT(elements("a,b", ','), ElementsAre("a", "b"));
  EXPECT_THAT(elements("a,b,", ','), ElementsAre("a", "b"));
  EXPECT_THAT(elements("a,,", ','), ElementsAre("a", ""));
  EXPECT_THAT(elements(",", ','), ElementsAre(""));
  EXPECT_THAT(elements("", ','), ElementsAre());
}

TEST(Text, TrimmedDropsBlanksAtTheEndsOnly) {
  EXPECT_EQ(trimmed(" \ta b\r\n"), "a b");
  EXPECT_EQ(trimmed(" \t "), "");
  EXPECT_EQ(trimmed(""), "");
}

TEST(NearestName, FindsTheClosestAndTheFirstOfEquals) {
  EXPECT_EQ(nearest_name("btl_sm_fbox_sise", {"btl_sm_fbox_max", "btl_sm_fbox_size"}), "btl_sm_fbox_size");
  EXPECT_EQ(nearest_name("cat", {"bat", "rat"}), "bat");
  EXPECT_EQ(nearest_name("exact", {"other", "exact"}), "exact");
  EXPECT_EQ(nearest_name("szie", {"sxxe", "size"}), "size") << "a swap of neighbours counts one";
  EXPECT_EQ(nearest_name("sitting", {"smitten", "kitten"}), "") << "three of seven letters differ";
}

TEST(NearestName, CompletesANameThatStopsEarly) {
  EXPECT_EQ(nearest_name("deb", {"error", "debug"}), "debug");
  EXPECT_EQ(nearest_name("btl_sm_fbox", {"log", "btl_sm_fbox_max", "btl_sm_fbox_size"}), "btl_sm_fbox_max");
  EXPECT_EQ(nearest_name("b", {"btl_sm_fbox_max"}), "");
}

TEST(NearestName, SuggestsNothingRatherThanSomethingFarOff) {
  EXPECT_EQ(nearest_name("zebra", {"btl_sm_fbox_size", "log"}), "");
  EXPECT_EQ(nearest_name("anything", {}), "");
  EXPECT_EQ(nearest_name(std::string(100'000, 'x'), {"x"}), "");
}

}  // namespace
}  // namespace opal
