// SPDX-License-Identifier: Apache-2.0
#include "opal/core/config/store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "opal/core/config/core_config.hpp"
#include "opal/core/log.hpp"

namespace opal::config {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct EveryType {
  bool flag = true;
  std::uint32_t count = 16;
  std::uint64_t wide = 1;
  double offset = -1;
  double ratio = 0.5;
  ByteSize size = 4_KiB;
  std::string mode = "auto";
  std::chrono::milliseconds timeout = 500ms;
  std::chrono::microseconds spin = 20us;
};

constexpr Var<EveryType> kVars[] = {
    {"flag", &EveryType::flag, Level::user, "A switch."},
    {"count", &EveryType::count, Level::tuner, "A count.", {.min = 1, .max = 1 << 20}, "sends"},
    {"wide", &EveryType::wide, Level::tuner, "A wide count."},
    {"offset", &EveryType::offset, Level::tuner, "A signed number.", {.min = -10, .max = 10}},
    {"ratio", &EveryType::ratio, Level::tuner, "A fraction.", {.min = 0, .max = 1}},
    {"size", &EveryType::size, Level::tuner, "A size.", {.min = 1_KiB, .max = 1_MiB, .power_of_two = true}},
    {"mode", &EveryType::mode, Level::user, "A choice.", {.choices = "auto|cma|none"}},
    {"timeout", &EveryType::timeout, Level::user, "A time.", {.min = 1, .max = 60'000}},
    {"spin", &EveryType::spin, Level::developer, "A short time."},
};
constexpr Group<EveryType> kGroup{"demo", "Everything a variable can be", kVars};
const GroupInfo* const kGroups[] = {&kGroup};

using Variables = std::vector<std::pair<std::string, std::string>>;

Store environment_of(const Variables& variables) {
  Store store;
  store.add_environment(variables);
  return store;
}

/// The message load() fails with when `name` is set to `value` in the environment; "" when it succeeds.
std::string failure(const std::string& name, const std::string& value) {
  const Result<EveryType> loaded = environment_of({{name, value}}).load(kGroup);
  return loaded ? "" : loaded.error().where;
}

std::vector<std::string> texts(const std::vector<Problem>& problems) {
  std::vector<std::string> all;
  for (const Problem& problem : problems) {
    all.push_back((problem.severity == Problem::Severity::error ? "error: " : "warning: ") + problem.text);
  }
  return all;
}

/// Keeps what a test provokes on purpose off stderr.
class ConfigStore : public ::testing::Test {
 protected:
  void SetUp() override {
    log::set_sink(
        [](void* user, const log::Message& m) noexcept { *static_cast<std::string*>(user) += log::to_line(m) + "\n"; },
        &logged_);
  }
  void TearDown() override { log::set_sink(nullptr, nullptr); }
  std::string logged_;
};

TEST_F(ConfigStore, LoadsTheDefaultsOfTheStructWhenNothingIsSet) {
  const EveryType config = Store{}.load(kGroup).value();
  EXPECT_TRUE(config.flag);
  EXPECT_EQ(config.count, 16u);
  EXPECT_EQ(config.size, 4_KiB);
  EXPECT_EQ(config.mode, "auto");
  EXPECT_EQ(config.timeout, 500ms);
}

TEST_F(ConfigStore, SetsEveryTypeFromTheEnvironment) {
  const Store store = environment_of({{"OPAL_DEMO_FLAG", "no"},
                                      {"OPAL_DEMO_COUNT", "0x20"},
                                      {"OPAL_DEMO_WIDE", "18446744073709551615"},
                                      {"OPAL_DEMO_OFFSET", "-7"},
                                      {"OPAL_DEMO_RATIO", "0.25"},
                                      {"OPAL_DEMO_SIZE", "8 KiB"},
                                      {"OPAL_DEMO_MODE", "cma"},
                                      {"OPAL_DEMO_TIMEOUT", "2s"},
                                      {"OPAL_DEMO_SPIN", "1ms"}});
  const EveryType config = store.load(kGroup).value();
  EXPECT_FALSE(config.flag);
  EXPECT_EQ(config.count, 32u);
  EXPECT_EQ(config.wide, UINT64_MAX);
  EXPECT_EQ(config.offset, -7);
  EXPECT_EQ(config.ratio, 0.25);
  EXPECT_EQ(config.size, 8_KiB);
  EXPECT_EQ(config.mode, "cma");
  EXPECT_EQ(config.timeout, 2000ms);
  EXPECT_EQ(config.spin, 1000us);
}

TEST_F(ConfigStore, StrongerSourcesWinWhateverTheOrderOfAdding) {
  Store store;
  store.set("demo_count", "6");
  store.add_environment(Variables{{"OPAL_SET", "demo_count=5\ndemo_wide=5\n"},
                                  {"OPAL_DEMO_COUNT", "4"},
                                  {"OPAL_DEMO_WIDE", "4"},
                                  {"OPAL_DEMO_OFFSET", "4"}});
  store.add_text(Source::user_file, "demo_count=3\ndemo_offset=3\nspare=1\ndemo_ratio=0.3", "user");
  store.add_text(Source::system_file, "demo_count=2\ndemo_ratio=0.2\ndemo_timeout=2", "system");
  const EveryType config = store.load(kGroup).value();
  EXPECT_EQ(config.count, 6u) << "API";
  EXPECT_EQ(config.wide, 5u) << "launcher";
  EXPECT_EQ(config.offset, 4) << "environment";
  EXPECT_EQ(config.ratio, 0.3) << "user file";
  EXPECT_EQ(config.timeout, 2ms) << "system file";
}

TEST_F(ConfigStore, TheLastOfTwoEqualsCounts) {
  Store store;
  store.set("demo_count", "6");
  store.set("demo_count", "7");
  EXPECT_EQ(store.load(kGroup).value().count, 7u);
}

TEST_F(ConfigStore, ABadValueNamesVariableValueSourceReasonAndRange) {
  EXPECT_EQ(failure("OPAL_DEMO_SIZE", "5000"),
            "demo_size: value \"5000\" (environment OPAL_DEMO_SIZE) is not a power of two; allowed: 1 KiB .. 1 MiB, "
            "power of two");
}

TEST_F(ConfigStore, RefusesWhatIsOutOfRangeOrNoValueOfTheType) {
  const std::vector<std::array<std::string, 3>> cases = {
      {"FLAG", "maybe", "is neither true nor false"},
      {"COUNT", "0", "is too small; allowed: 1 .. 1048576"},
      {"COUNT", "-1", "is not a whole number >= 0"},
      {"COUNT", "4294967296", "does not fit into 32 bits"},
      {"COUNT", "99999999999999999999", "does not fit into 32 bits"},
      {"COUNT", "12x", "is not a whole number"},
      {"COUNT", "", "is not a whole number"},
      {"COUNT", "1.5", "is not a whole number"},
      {"WIDE", "18446744073709551616", "does not fit into 64 bits"},
      {"OFFSET", "-11", "is too small; allowed: -10 .. 10"},
      {"OFFSET", "--1", "is not a number"},
      {"RATIO", "nan", "is not a number"},
      {"RATIO", "1.01", "is too large; allowed: 0 .. 1"},
      {"SIZE", "2 MiB", "is too large"},
      {"SIZE", "4 KB", "is not a size"},
      {"SIZE", "99999999999T", "does not fit into 64 bits"},
      {"MODE", "cmm", "is not a known choice; did you mean cma?; allowed: auto | cma | none"},
      {"TIMEOUT", "1500us", "is not a whole number of milliseconds"},
      {"TIMEOUT", "2h", "is too large; allowed: 1ms .. 1min"},
      {"TIMEOUT", "soon", "is not a time"},
  };
  for (const auto& [variable, value, reason] : cases) {
    EXPECT_THAT(failure("OPAL_DEMO_" + variable, value), HasSubstr(reason)) << variable << '=' << value;
  }
}

TEST_F(ConfigStore, ABadValueIsLoggedOnceHoweverOftenTheGroupIsLoaded) {
  const Store store = environment_of({{"OPAL_DEMO_COUNT", "logged-once"}});
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(store.load(kGroup));
  EXPECT_THAT(logged_, HasSubstr("error config: demo_count: value \"logged-once\""));
  EXPECT_EQ(std::count(logged_.begin(), logged_.end(), '\n'), 1);
}

TEST_F(ConfigStore, ABadValueThatAStrongerSourceReplacesDoesNoHarm) {
  Store store = environment_of({{"OPAL_DEMO_COUNT", "rubbish"}});
  store.set("demo_count", "3");
  EXPECT_EQ(store.load(kGroup).value().count, 3u);
}

TEST_F(ConfigStore, AnUnknownNameIsAWarningThatNamesTheNearestKnownOne) {
  const Store store = environment_of({{"OPAL_DEMO_CUONT", "3"}});
  EXPECT_THAT(
      texts(store.problems(kGroups)),
      ElementsAre("warning: demo_cuont: unknown variable (environment OPAL_DEMO_CUONT); did you mean demo_count?"));
  EXPECT_TRUE(store.verify(kGroups));
  EXPECT_THAT(logged_, HasSubstr("warn config: demo_cuont"));
}

TEST_F(ConfigStore, AnUnknownNameIsAnErrorWhenStrict) {
  const Store store = environment_of({{"OPAL_DEMO_CUONT", "3"}, {"OPAL_STRICT", "1"}});
  const Result<void> verified = store.verify(kGroups);
  ASSERT_FALSE(verified);
  EXPECT_EQ(verified.error().code, Errc::invalid_argument);
  EXPECT_THAT(verified.error().where, HasSubstr("demo_cuont"));
}

TEST_F(ConfigStore, AnUnknownNameThatTheProgramSetIsAnError) {
  Store store;
  store.set("quite_different", "1");
  EXPECT_THAT(texts(store.problems(kGroups)), ElementsAre("error: quite_different: unknown variable (API)"));
}

TEST_F(ConfigStore, NamesOfLayersThatMayBeAbsentAreNotMentioned) {
  const Store store = environment_of({{"OPAL_MPI_EAGER_LIMIT", "3"}, {"OPAL_OTHER", "1"}});
  constexpr std::string_view kForeign[] = {"mpi_"};
  EXPECT_THAT(texts(store.problems(kGroups, kForeign)), ElementsAre(HasSubstr("other: unknown variable")));
}

TEST_F(ConfigStore, VariablesOfCoreAreAlwaysKnownAndChecked) {
  const Store good = environment_of({{"OPAL_LOG", "debug"}});
  EXPECT_THAT(good.problems({}), IsEmpty());
  const Store bad = environment_of({{"OPAL_LOG", "loud"}});
  EXPECT_THAT(texts(bad.problems(kGroups)), ElementsAre(HasSubstr("error: log: value \"loud\"")));
}

TEST_F(ConfigStore, InternalNamesAndOtherPeoplesVariablesAreLeftAlone) {
  const Store store = environment_of({{"OPAL_INTERNAL_PORT", "3"}, {"PATH", "/bin"}, {"OPALESCENT", "1"}});
  EXPECT_THAT(store.settings(), IsEmpty());
}

TEST_F(ConfigStore, FilesHaveCommentsBlanksAndLineNumbersInMessages) {
  Store store;
  store.add_text(Source::user_file,
                 "# opal\n\n demo_count = 9   # nine\ndemo_size=3K\nwhat is this\nDemo=1\nother = a#b\r\n",
                 "opal.conf");
  EXPECT_THAT(texts(store.problems(kGroups)),
              ElementsAre("error: user file opal.conf:5: a setting is written name=value",
                          HasSubstr("error: user file opal.conf:6: a variable's name has only"),
                          HasSubstr("error: demo_size: value \"3K\" (user file opal.conf:4) is not a power of two"),
                          HasSubstr("warning: other: unknown variable")));
  EXPECT_EQ(store.settings().back().value, "a#b");
  EXPECT_EQ(store.list(kGroup)[1].value, "9");
}

TEST_F(ConfigStore, AFileIsReadFromDiskAndAMissingOneMattersOnlyWhenItWasNamed) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("opal-config-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::string path = folder / "opal.conf";
  std::ofstream{path} << "demo_count = 42\n";

  Store store;
  store.add_file(Source::system_file, path, false);
  EXPECT_EQ(store.load(kGroup).value().count, 42u);
  store.add_file(Source::system_file, folder / "absent", false);
  EXPECT_THAT(store.problems(kGroups), IsEmpty());
  store.add_file(Source::user_file, folder / "absent", true);
  store.add_file(Source::user_file, folder, false);
  EXPECT_THAT(texts(store.problems(kGroups)),
              ElementsAre(HasSubstr("absent: No such file"), HasSubstr("not a regular file")));
  std::filesystem::remove_all(folder);
}

TEST_F(ConfigStore, TheProcessEnvironmentNamesTheUserFileAndOverridesIt) {
  const std::string path = std::filesystem::temp_directory_path() / ("opal-user-" + std::to_string(::getpid()));
  std::ofstream{path} << "demo_count = 42\ndemo_wide = 42\n";
  ::setenv("OPAL_CONFIG_FILE", path.c_str(), 1);
  ::setenv("OPAL_DEMO_WIDE", "43", 1);
  const EveryType config = Store::from_environment().load(kGroup).value();
  ::unsetenv("OPAL_CONFIG_FILE");
  ::unsetenv("OPAL_DEMO_WIDE");
  std::filesystem::remove(path);
  EXPECT_EQ(config.count, 42u);
  EXPECT_EQ(config.wide, 43u);
}

TEST_F(ConfigStore, TheLauncherHandsDownAnyValueUnchanged) {
  const Variables given = {{"demo_mode", "cma"}, {"demo_text", "one line \\n and = signs"}, {"demo_count", "8"}};
  const Store store = environment_of({{"OPAL_SET", Store::encode_for_launch(given)}});
  ASSERT_EQ(store.settings().size(), given.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    EXPECT_EQ(store.settings()[i].name, given[i].first);
    EXPECT_EQ(store.settings()[i].value, given[i].second);
    EXPECT_EQ(store.settings()[i].source, Source::launcher);
  }
}

TEST_F(ConfigStore, ADamagedLaunchLineIsReportedAndTheOthersCount) {
  const Store store = environment_of({{"OPAL_SET", "demo_count=8\nnonsense\n"}});
  EXPECT_THAT(texts(store.problems(kGroups)), ElementsAre("error: OPAL_SET: \"nonsense\" is not name=value"));
  EXPECT_EQ(store.list(kGroup)[1].value, "8");
}

TEST_F(ConfigStore, ListsValueSourceAndWhatIsWrongOfEachVariable) {
  const Store store = environment_of({{"OPAL_DEMO_SIZE", "8K"}, {"OPAL_DEMO_COUNT", "0"}});
  const std::vector<Listing> rows = store.list(kGroup);
  ASSERT_EQ(rows.size(), std::size(kVars));
  EXPECT_EQ(rows[0].source, Source::builtin);
  EXPECT_EQ(rows[0].value, "true");
  EXPECT_EQ(rows[1].value, "16") << "a bad setting is not in force";
  EXPECT_THAT(rows[1].problem, HasSubstr("too small"));
  EXPECT_EQ(rows[5].name, "demo_size");
  EXPECT_EQ(rows[5].value, "8 KiB");
  EXPECT_EQ(rows[5].default_text, "4 KiB");
  EXPECT_EQ(rows[5].origin, "OPAL_DEMO_SIZE");
  EXPECT_THAT(rows[5].problem, IsEmpty());
}

TEST_F(ConfigStore, AnAssignmentNeedsAnEqualsSignANameAndOneLine) {
  EXPECT_EQ(parse_assignment(" a_b = c = d ").value(), (std::pair<std::string, std::string>{"a_b", "c = d"}));
  EXPECT_EQ(parse_assignment("a=").value().second, "");
  for (const char* bad : {"", "a", "=1", "A=1", "a-b=1", "a=1\n2"}) {
    EXPECT_FALSE(parse_assignment(bad)) << bad;
  }
}

}  // namespace
}  // namespace opal::config
