// SPDX-License-Identifier: Apache-2.0
#include "opal/core/system/machine.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "opal/core/config/store.hpp"

namespace opal {
namespace {

TEST(MachineKind, NamesModelAndNumberOfProcessorsAsAFileName) {
  EXPECT_EQ(machine_kind("processor\t: 0\nvendor_id\t: X\ncpu family\t: 6\nmodel\t\t: 207\n"
                         "model name\t: Intel(R) Xeon(R) Processor @ 2.10GHz\n\nprocessor\t: 1\nmodel name\t: other\n",
                         8),
            "intel-r-xeon-r-processor-2-10ghz-6-207-8cpus");
  EXPECT_EQ(machine_kind("CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n", 64), "0x41-0xd0c-64cpus");
}

TEST(MachineKind, IsAFileNameWhateverTheTextSays) {
  EXPECT_EQ(machine_kind("", 4), "unknown-4cpus");
  EXPECT_EQ(machine_kind("model name : ../../etc/passwd\n", 4), "etc-passwd-4cpus");
  EXPECT_LE(machine_kind("model name : " + std::string(4000, 'x'), 4).size(), 128U);
  EXPECT_EQ(machine_kind(), machine_kind());
  EXPECT_EQ(machine_kind().find('/'), std::string::npos);
}

struct DemoConfig {
  std::uint32_t count = 1;
  std::uint32_t other = 1;
};
constexpr config::Var<DemoConfig> kVars[] = {
    {"count", &DemoConfig::count, config::Level::tuner, "A count."},
    {"other", &DemoConfig::other, config::Level::tuner, "Another one."},
};
constexpr config::Group<DemoConfig> kGroup{"machinedemo", "Two counts", kVars};

/// A home of its own, in which the user's files lie.
class TunedFiles : public ::testing::Test {
 protected:
  TunedFiles() : home_(std::filesystem::temp_directory_path() / ("opal-machine-test-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(home_ / "opal/tuned");
    ::setenv("XDG_CONFIG_HOME", home_.c_str(), 1);
  }
  ~TunedFiles() override {
    ::unsetenv("XDG_CONFIG_HOME");
    std::filesystem::remove_all(home_);
  }
  void write(const std::string& name, const std::string& text) const { std::ofstream{home_ / "opal" / name} << text; }

  std::filesystem::path home_;
};

TEST_F(TunedFiles, OfThisKindOfMachineAreReadAndAreWeakerThanWhatAPersonWrote) {
  write("tuned/" + machine_kind() + ".conf", "machinedemo_count = 7\nmachinedemo_other = 7\n");
  write("opal.conf", "machinedemo_other = 9\n");
  const config::Store store = config::Store::from_environment();
  const auto demo = store.load(kGroup);
  ASSERT_TRUE(demo);
  EXPECT_EQ(demo->count, 7U);
  EXPECT_EQ(demo->other, 9U);
  const auto rows = store.list(kGroup);
  EXPECT_STREQ(config::name(rows[0].source), "user file");
  EXPECT_EQ(rows[0].origin, user_tuning_folder() + '/' + machine_kind() + ".conf:1");
}

TEST_F(TunedFiles, ThatAreDamagedAreNoMoreThanWarnings) {
  write("tuned/" + machine_kind() + ".conf", "machinedemo_count = much\n\x01\x02 garbage\nmachinedemo_other = 7\n");
  const config::Store store = config::Store::from_environment();
  const auto demo = store.load(kGroup);
  ASSERT_TRUE(demo) << to_string(demo.error());
  EXPECT_EQ(demo->count, 1U) << "the default";
  EXPECT_EQ(demo->other, 7U);
  const config::GroupInfo* const groups[] = {&kGroup};
  EXPECT_TRUE(store.verify(groups));
  std::size_t warnings = 0;
  for (const config::Problem& problem : store.problems(groups)) {
    EXPECT_EQ(problem.severity, config::Problem::Severity::warning) << problem.text;
    if (problem.text.find(machine_kind()) != std::string::npos) ++warnings;
  }
  EXPECT_EQ(warnings, 2U) << "the bad value and the bad line";
}

TEST_F(TunedFiles, ThatCannotBeReadAreNoMoreThanWarnings) {
  std::filesystem::create_directories(home_ / "opal/tuned" / (machine_kind() + ".conf"));
  const config::GroupInfo* const groups[] = {&kGroup};
  const config::Store store = config::Store::from_environment();
  EXPECT_TRUE(store.verify(groups));
  EXPECT_EQ(store.problems(groups).size(), 1U);
}

TEST_F(TunedFiles, OfOtherMachinesAreNotRead) {
  write("tuned/another-machine-999cpus.conf", "machinedemo_count = 7\n");
  const auto demo = config::Store::from_environment().load(kGroup);
  ASSERT_TRUE(demo);
  EXPECT_EQ(demo->count, 1U);
}

}  // namespace
}  // namespace opal
