// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/seeds.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "opal/core/sanitizer.hpp"

namespace opal::test {
namespace {

/// How many of `count` seeds run here: a sanitizer looks at the code that runs, which is the same in most seeds, and
/// makes each of them several times slower.
std::uint64_t share(std::uint64_t count) {
  if (!OPAL_ADDRESS_SANITIZER && !OPAL_THREAD_SANITIZER) return count;
  return std::min(count, std::max<std::uint64_t>(count / 8, 20));
}

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
  const std::uint64_t last = only.value_or(number_from("OPAL_SIM_SEEDS").value_or(share(count)));
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    SCOPED_TRACE("replay: " + replay_command(seed));
    body(seed);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace opal::test
