// SPDX-License-Identifier: Apache-2.0
#include "opal/core/config/value.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace opal::config {
namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(ConfigValue, EveryValueIsReadBackAsItIsWritten) {
  const std::vector<Value> values = {true,
                                     false,
                                     std::uint32_t{0},
                                     UINT32_MAX,
                                     UINT64_MAX,
                                     0.1,
                                     1e300,
                                     ByteSize{0},
                                     ByteSize{1},
                                     ByteSize{1023},
                                     4_KiB,
                                     3_MiB,
                                     5_GiB,
                                     ByteSize{UINT64_MAX},
                                     ByteSize{1ULL << 40},
                                     std::string{"any text"},
                                     milliseconds{0},
                                     milliseconds{999},
                                     milliseconds{90s},
                                     milliseconds{2h},
                                     microseconds{1},
                                     microseconds{1500},
                                     microseconds{3s}};
  for (const Value& value : values) {
    const Parsed again = parse(to_string(value), static_cast<Type>(value.index()), {});
    EXPECT_EQ(again.problem, "") << to_string(value);
    EXPECT_EQ(again.value, value) << to_string(value);
  }
}

TEST(ConfigValue, SizesAreWrittenInTheLargestUnitThatIsExact) {
  EXPECT_EQ(to_string(Value{4_KiB}), "4 KiB");
  EXPECT_EQ(to_string(Value{ByteSize{4097}}), "4097 B");
  EXPECT_EQ(to_string(Value{1024_MiB}), "1 GiB");
  EXPECT_EQ(to_string(Value{ByteSize{0}}), "0 B");
  EXPECT_EQ(to_string(Value{1500ms}), "1500ms");
  EXPECT_EQ(to_string(Value{milliseconds{60s}}), "1min");
}

TEST(ConfigValue, SizesAreReadWithAnyUsualSuffix) {
  for (const char* text : {"65536", "64K", "64k", "64 KiB", " 64KiB ", "0x10000", "65536 B"}) {
    const Parsed parsed = parse(text, Type::size, {});
    EXPECT_EQ(parsed.problem, "") << text;
    EXPECT_EQ(parsed.value, Value{64_KiB}) << text;
  }
}

TEST(ConfigValue, TimesCountInTheVariablesUnitUnlessTheySayTheirOwn) {
  EXPECT_EQ(parse("250", Type::milliseconds, {}).value, Value{250ms});
  EXPECT_EQ(parse("250", Type::microseconds, {}).value, Value{250us});
  EXPECT_EQ(parse("2 s", Type::microseconds, {}).value, Value{microseconds{2s}});
  EXPECT_EQ(parse("3000us", Type::milliseconds, {}).value, Value{3ms});
  EXPECT_NE(parse("18446744073709551615 h", Type::milliseconds, {}).problem, "");
}

TEST(ConfigValue, RangesIncludeBothEnds) {
  const Range range{.min = 1_KiB, .max = 1_MiB};
  EXPECT_EQ(parse("1 KiB", Type::size, range).problem, "");
  EXPECT_EQ(parse("1 MiB", Type::size, range).problem, "");
  EXPECT_NE(parse("1023", Type::size, range).problem, "");
  EXPECT_NE(parse("1048577", Type::size, range).problem, "");
}

TEST(ConfigValue, PowerOfTwoHoldsForEveryNumericType) {
  const Range range{.power_of_two = true};
  for (const Type type : {Type::u32, Type::u64, Type::real, Type::size, Type::milliseconds}) {
    EXPECT_EQ(parse("64", type, range).problem, "") << name(type);
    EXPECT_EQ(parse("63", type, range).problem, "is not a power of two") << name(type);
    EXPECT_EQ(parse("0", type, range).problem, "is not a power of two") << name(type);
  }
}

TEST(ConfigValue, RangesReadWellForPeople) {
  EXPECT_EQ(to_string(Range{.min = 1_KiB, .max = 1_MiB, .power_of_two = true}, Type::size),
            "1 KiB .. 1 MiB, power of two");
  EXPECT_EQ(to_string(Range{.min = 1}, Type::u32), ">= 1");
  EXPECT_EQ(to_string(Range{.max = 0.5}, Type::real), "<= 0.5");
  EXPECT_EQ(to_string(Range{.min = -3, .max = 1000}, Type::milliseconds), "-3 .. 1s");
  EXPECT_EQ(to_string(Range{.choices = "a|b"}, Type::text), "a | b");
  EXPECT_EQ(to_string(Range{}, Type::boolean), "true | false");
  EXPECT_EQ(to_string(Range{}, Type::u64), "");
  EXPECT_EQ(to_string(Range{.power_of_two = true}, Type::u64), "power of two");
}

TEST(ConfigValue, TextWithoutChoicesMayBeAnything) {
  EXPECT_EQ(parse("  two words ", Type::text, {}).value, Value{std::string{"two words"}});
  EXPECT_EQ(parse("", Type::text, {}).problem, "");
  EXPECT_NE(parse("", Type::text, {.choices = "a|b"}).problem, "");
}

}  // namespace
}  // namespace opal::config
