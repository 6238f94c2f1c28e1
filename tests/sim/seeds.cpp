// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/seeds.hpp"

#include <gtest/gtest.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace opal::test {
namespace {

std::optional<std::uint64_t> number_from(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), number);
  if (error != std::errc{} || *end != '\0') {
    ADD_FAILURE() << variable << "=" << text << " is not a number";
    return std::nullopt;
  }
  return number;
}

}  // namespace

std::string replay_command(std::uint64_t seed) {
  const ::testing::TestInfo& test = *::testing::UnitTest::GetInstance()->current_test_info();
  return "OPAL_SIM_SEED=" + std::to_string(seed) + " " + ::testing::internal::GetArgvs().front() +
         " --gtest_filter=" + test.test_suite_name() + "." + test.name();
}

void for_each_seed(std::uint64_t count, const std::function<void(std::uint64_t seed)>& body) {
  const auto only = number_from("OPAL_SIM_SEED");
  const std::uint64_t first = only.value_or(1);
  const std::uint64_t last = only.value_or(number_from("OPAL_SIM_SEEDS").value_or(count));
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    SCOPED_TRACE("replay: " + replay_command(seed));
    body(seed);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace opal::test
