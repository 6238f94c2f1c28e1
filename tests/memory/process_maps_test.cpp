// SPDX-License-Identifier: Apache-2.0
// The kernel's list of mappings: its end, a list that cannot be opened, and a line that is longer than the buffer.
#include "opal/memory/process_maps.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "opal/core/system/fd.hpp"
#include "tests/harness/program.hpp"
#include "tests/memory/no_free_descriptor.hpp"

namespace opal::memory {
namespace {

constexpr std::size_t kPage = 4096;

std::optional<MapsEntry> entry_at(ProcessMaps& maps, const void* address) {
  std::optional<MapsEntry> found;
  for (MapsEntry entry; maps.next(entry);) {
    if (entry.range.begin == reinterpret_cast<std::uintptr_t>(address)) found = entry;
  }
  return found;
}

TEST(ProcessMaps, IsCompleteAtTheEndOfTheList) {
  ProcessMaps maps;
  MapsEntry entry;
  EXPECT_TRUE(maps.next(entry));
  EXPECT_FALSE(maps.complete());
  while (maps.next(entry)) {
  }
  EXPECT_TRUE(maps.complete());
}

TEST(ProcessMaps, IsNotCompleteIfTheListCannotBeOpened) {
  std::optional<ProcessMaps> maps;
  {
    const test::NoFreeDescriptor none;
    maps.emplace();
  }
  MapsEntry entry;
  EXPECT_FALSE(maps->next(entry));
  EXPECT_FALSE(maps->complete());
}

/// A file whose path has 2,500 line feeds.  The kernel writes each as "\012", so the line has more than 10,000 bytes.
class FileWithALongName : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::path path = directory_.path();
    for (int i = 0; i < 10; ++i) path /= std::string(250, '\n');
    std::filesystem::create_directories(path);
    fd_ = Fd{::open((path / "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
    ASSERT_TRUE(fd_);
    ASSERT_EQ(::ftruncate(fd_.get(), 2 * kPage), 0);
  }

  Fd fd_;

 private:
  const test::Scratch directory_;
};

TEST_F(FileWithALongName, IsAnEntryAsAnyOther) {
  void* const at = ::mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE, fd_.get(), kPage);
  ASSERT_NE(at, MAP_FAILED);
  ProcessMaps maps;
  const std::optional<MapsEntry> found = entry_at(maps, at);
  EXPECT_TRUE(maps.complete()) << "the entries after the long line are missing";
  ASSERT_TRUE(found);
  EXPECT_EQ(found->range.size(), kPage);
  EXPECT_EQ(found->protection, PROT_READ);
  EXPECT_EQ(found->offset, kPage);
  ::munmap(at, kPage);
}

}  // namespace
}  // namespace opal::memory
