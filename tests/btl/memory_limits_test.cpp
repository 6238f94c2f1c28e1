// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/shared/registrations/memory_limits.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace opal::btl {
namespace {

class MemoryLimits : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "opal-groups.XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream{root_ / path} << text << '\n';
  }
  [[nodiscard]] std::uint64_t usable() const { return usable_memory(root_ / "membership", root_); }
  std::filesystem::path root_;
};

TEST_F(MemoryLimits, TheLeastLimitOfTheGroupAndThoseAboveItCounts) {
  write("membership", "0::/job/step");
  write("job/step/memory.max", "max");
  write("job/memory.max", "1048576");
  write("memory.max", "4194304");
  EXPECT_EQ(usable(), 1048576U);
  write("job/step/memory.max", "65536");
  EXPECT_EQ(usable(), 65536U);
  write("job/step/memory.max", "8388608");
  EXPECT_EQ(usable(), 1048576U);
}

TEST_F(MemoryLimits, AContainersOwnRootHasALimitToo) {
  write("membership", "0::/");
  write("memory.max", "4194304");
  EXPECT_EQ(usable(), 4194304U);
}

TEST_F(MemoryLimits, WithoutLimitsItIsTheHosts) {
  const std::uint64_t all = usable();
  EXPECT_GT(all, std::uint64_t{1} << 26);
  write("membership", "4:memory:/old\n0::/job");
  write("job/memory.max", "max");
  EXPECT_EQ(usable(), all);
}

}  // namespace
}  // namespace opal::btl
