// SPDX-License-Identifier: Apache-2.0
#include "opal/core/result.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>

namespace opal {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return Error{Errc::invalid_argument, 0, "half(odd)", static_cast<std::uint64_t>(n)};
  return n / 2;
}

Result<int> quarter(int n) {
  OPAL_TRY_ASSIGN(const int once, half(n));
  OPAL_TRY_ASSIGN(const int twice, half(once));
  return twice;
}

Result<void> only_even(int n) {
  OPAL_TRY(half(n));
  return {};
}

TEST(Result, HoldsAValueOrAnError) {
  const Result<int> good = half(4);
  ASSERT_TRUE(good);
  EXPECT_EQ(good.value(), 2);
  const Result<int> bad = half(3);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, Errc::invalid_argument);
  EXPECT_EQ(bad.error().detail, 3u);
}

TEST(Result, TryReturnsTheFirstErrorAndGoesOnOtherwise) {
  EXPECT_EQ(quarter(8).value(), 2);
  EXPECT_EQ(quarter(6).error().detail, 3u);
  EXPECT_TRUE(only_even(2));
  EXPECT_EQ(only_even(1).error().code, Errc::invalid_argument);
}

TEST(Result, MovesValuesThatCannotBeCopied) {
  Result<std::unique_ptr<int>> owner{std::make_unique<int>(7)};
  const std::unique_ptr<int> taken = std::move(owner).value();
  EXPECT_EQ(*taken, 7);
}

TEST(Result, GivesAFallbackOnlyWhenThereIsAnError) {
  EXPECT_EQ(half(4).value_or(9), 2);
  EXPECT_EQ(half(3).value_or(9), 9);
}

TEST(ResultDeathTest, AskingForWhatIsNotThereAborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(static_cast<void>(half(3).value()), "");
  EXPECT_DEATH(static_cast<void>(half(4).error()), "");
  EXPECT_DEATH(static_cast<void>(only_even(2).error()), "");
}

TEST(Error, SaysWhatWhereErrnoAndDetail) {
  EXPECT_EQ(to_string(Error{Errc::peer_gone, 0, "recv"}), "recv: peer_gone");
  const std::string text = to_string(Error{Errc::no_space, ENOSPC, "posix_fallocate", 4096});
  EXPECT_NE(text.find("posix_fallocate: no_space (errno 28: No space left on device) [4096]"), std::string::npos)
      << text;
}

TEST(Error, EveryCodeHasANameOfItsOwn) {
  std::string seen = "|";
  for (int code = static_cast<int>(Errc::busy); code <= static_cast<int>(Errc::internal); ++code) {
    const std::string text = name(static_cast<Errc>(code));
    EXPECT_NE(text, "unknown");
    EXPECT_EQ(seen.find("|" + text + "|"), std::string::npos) << text;
    seen += text + "|";
  }
  EXPECT_STREQ(name(static_cast<Errc>(200)), "unknown");
}

}  // namespace
}  // namespace opal
