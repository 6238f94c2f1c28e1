// SPDX-License-Identifier: Apache-2.0
// The table of obligations in CONTRIBUTING.md and the conformance tests: each row names a test, each test has a row.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace opal::test {
namespace {

const std::filesystem::path kTree{OPAL_SOURCE_DIR};

std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream{file};
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

/// "SUITE.CASE" of every parameterised test of the suite.
std::vector<std::string> conformance_tests() {
  static const std::regex kTest{R"(TEST_P\((\w+), (\w+)\))"};
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator{kTree / "tests/conformance"}) {
    if (entry.path().extension() != ".cpp") continue;
    const std::string text = text_of(entry.path());
    for (std::sregex_iterator match{text.begin(), text.end(), kTest}; match != std::sregex_iterator{}; ++match) {
      names.push_back((*match)[1].str() + "." + (*match)[2].str());
    }
  }
  return names;
}

/// The last column of the table: beginnings of names, each followed by `*`.
std::vector<std::string> named_in_the_table() {
  static const std::regex kRow{R"(\n\|[^\n|]+\| `(\w+\.\w*)\*` \|)"};
  const std::string text = text_of(kTree / "CONTRIBUTING.md");
  std::vector<std::string> names;
  for (std::sregex_iterator match{text.begin(), text.end(), kRow}; match != std::sregex_iterator{}; ++match) {
    names.push_back((*match)[1].str());
  }
  return names;
}

TEST(Obligations, EachRowOfTheTableNamesAConformanceTest) {
  const auto tests = conformance_tests();
  ASSERT_FALSE(tests.empty());
  const auto rows = named_in_the_table();
  ASSERT_FALSE(rows.empty());
  for (const std::string& row : rows) {
    EXPECT_TRUE(std::any_of(tests.begin(), tests.end(), [&](const auto& test) { return test.starts_with(row); }))
        << row;
  }
}

TEST(Obligations, EachConformanceTestHasARow) {
  const auto rows = named_in_the_table();
  for (const std::string& test : conformance_tests()) {
    EXPECT_TRUE(std::any_of(rows.begin(), rows.end(), [&](const auto& row) { return test.starts_with(row); })) << test;
  }
}

}  // namespace
}  // namespace opal::test
