// SPDX-License-Identifier: Apache-2.0
// Configuration text from anywhere: whatever it says, loading gives a value within its range or an error with a text.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "opal/core/config/store.hpp"
#include "opal/core/log.hpp"

namespace {

using namespace opal;
using config::Level;

struct Settings {
  bool flag = true;
  std::uint32_t count = 16;
  double offset = -1;
  double ratio = 0.5;
  ByteSize size = 4_KiB;
  std::string mode = "auto";
  std::chrono::milliseconds timeout{500};
  std::chrono::microseconds spin{20};
};

constexpr config::Var<Settings> kVars[] = {
    {"flag", &Settings::flag, Level::user, "A switch."},
    {"count", &Settings::count, Level::user, "A count.", {.min = 1, .max = 1 << 20}},
    {"offset", &Settings::offset, Level::user, "A signed number."},
    {"ratio", &Settings::ratio, Level::user, "A fraction.", {.min = 0, .max = 1}},
    {"size", &Settings::size, Level::user, "A size.", {.min = 1_KiB, .max = 1_GiB, .power_of_two = true}},
    {"mode", &Settings::mode, Level::user, "A choice.", {.choices = "auto|cma|none"}},
    {"timeout", &Settings::timeout, Level::user, "A time.", {.max = 60'000}},
    {"spin", &Settings::spin, Level::user, "A short time."},
};
constexpr config::Group<Settings> kGroup{"f", "Fuzzed", kVars};
const config::GroupInfo* const kGroups[] = {&kGroup};

void require(bool condition) {
  if (!condition) std::abort();
}

/// What load() gave is within the ranges of kVars, and is read back from its own listing unchanged.
void check_loaded(const config::Store& store, const Settings& loaded) {
  require(loaded.count >= 1 && loaded.count <= 1 << 20);
  require(loaded.ratio >= 0 && loaded.ratio <= 1);
  require(loaded.size >= 1_KiB && loaded.size <= 1_GiB && (loaded.size.bytes & (loaded.size.bytes - 1)) == 0);
  require(loaded.mode == "auto" || loaded.mode == "cma" || loaded.mode == "none");
  require(loaded.timeout.count() >= 0 && loaded.timeout.count() <= 60'000 && loaded.spin.count() >= 0);
  for (const config::Listing& row : store.list(kGroup)) {
    const config::Parsed again = config::parse(row.value, row.var.type, row.var.range);
    require(row.problem.empty() && again.problem.empty() && config::to_string(again.value) == row.value);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > 4096) return 0;
  log::set_sink([](void*, const log::Message&) noexcept {}, nullptr);
  const std::string_view text{reinterpret_cast<const char*>(data) + 1, size - 1};
  config::Store store;
  if (data[0] % 2 == 0) {
    store.add_text(config::Source::user_file, text, "fuzzed");
  } else {
    store.add_environment(std::vector<std::pair<std::string, std::string>>{{"OPAL_SET", std::string{text}}});
  }
  for (const config::Problem& problem : store.problems(kGroups)) require(!problem.text.empty());
  const bool problem_free = [&] {
    for (const config::Listing& row : store.list(kGroup)) {
      if (!row.problem.empty()) return false;
    }
    return true;
  }();
  // load() keeps each message for ever, which is right for a process and wrong for a million inputs.
  if (problem_free) {
    const Result<Settings> loaded = store.load(kGroup);
    require(loaded.has_value());
    check_loaded(store, *loaded);
  }
  return 0;
}
