// SPDX-License-Identifier: Apache-2.0
// Gets of a hundred times more exposed buffers than a simulated device can have registered, through whole Contexts:
// none fails, every byte arrives, nothing grows.  A second; OPAL_TEST_PRESSURE_SECONDS says otherwise (./test --all: a
// minute).
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "opal/core/clock.hpp"
#include "opal/core/sanitizer.hpp"
#include "opal/core/system/fd.hpp"
#include "tests/am/pair.hpp"

#if OPAL_ADDRESS_SANITIZER
#include <sanitizer/allocator_interface.h>
#endif

namespace opal::test {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kRegions = 100'000;
constexpr std::size_t kStride = 2 * kPage;  // neighbours never become one registration

std::chrono::seconds duration() {
  const char* const text = std::getenv("OPAL_TEST_PRESSURE_SECONDS");
  return std::chrono::seconds{text != nullptr ? std::max(1, std::atoi(text)) : 1};
}

/// Resident memory of this process's own: heap and private mappings, not the working set, which is a file's.  With
/// AddressSanitizer its heap alone: the sanitizer has a page of its own for each page of the working set that is read.
std::uint64_t own_resident_bytes() {
#if OPAL_ADDRESS_SANITIZER
  return __sanitizer_get_current_allocated_bytes();
#endif
  std::ifstream status{"/proc/self/status"};
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) return std::stoull(line.substr(8)) * 1024;
  }
  return 0;
}

/// Addresses for all regions; behind them a few pages of a file, again and again, page i of it full of i.
class WorkingSet {
 public:
  WorkingSet() : file_(::memfd_create("working set", MFD_CLOEXEC)) {
    EXPECT_EQ(::ftruncate(file_.get(), kFile), 0);
    void* const room = ::mmap(nullptr, kSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_NE(room, MAP_FAILED);
    base_ = static_cast<std::byte*>(room);
    for (std::size_t at = 0; at < kSize; at += kFile) {
      EXPECT_EQ(::mmap(base_ + at, kFile, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_.get(), 0), base_ + at);
    }
    for (std::size_t page = 0; page < kFile / kPage; ++page) std::memset(base_ + page * kPage, value(page), kPage);
  }
  ~WorkingSet() { ::munmap(base_, kSize); }
  WorkingSet(const WorkingSet&) = delete;
  WorkingSet& operator=(const WorkingSet&) = delete;

  [[nodiscard]] std::byte* region(std::size_t index) const { return base_ + index * kStride; }
  /// What each byte of a region is.
  [[nodiscard]] static int content(std::size_t index) { return value(index * kStride % kFile / kPage); }

 private:
  static constexpr std::size_t kFile = std::size_t{1} << 20;
  static constexpr std::size_t kSize = (kRegions * kStride + kFile - 1) / kFile * kFile;
  static int value(std::size_t page) { return static_cast<int>(page % 251); }

  Fd file_;
  std::byte* base_ = nullptr;
};

TEST(SimPressure, AHundredThousandBuffersOverADeviceOfAThousandRegistrationsNeitherFailNorGrow) {
  config::Store limited;
  limited.set("btl_sim_registrations", "1000");
  Side a{"sim", am::ThreadLevel::single, {}, limited};
  Side b{"sim", am::ThreadLevel::single, {}, limited};
  const WorkingSet buffers;
  alignas(kPage) static std::byte target[kPage];
  am::Endpoint* const to_b = *a.context->connect(b.context->address());
  ASSERT_TRUE(pump([&] { return !b.connected.empty(); }, *a.context, *b.context));

  std::mt19937 random{1};
  const auto get = [&] {
    const std::size_t index = random() % kRegions;
    const auto exposed = b.connected[0]->expose(buffers.region(index), kPage, Rights::remote_read);
    ASSERT_TRUE(exposed) << to_string(exposed.error());
    const MemoryHandle handle = *MemoryHandle::from_bytes(exposed->handle());
    const Error end = finish(
        [&](Completion& done) {
          return to_b->get(target, reinterpret_cast<std::uint64_t>(buffers.region(index)), handle, kPage, done);
        },
        *a.context, *b.context);
    ASSERT_EQ(end.code, Errc{}) << to_string(end);
    const auto wanted = static_cast<std::byte>(WorkingSet::content(index));
    ASSERT_TRUE(std::all_of(std::begin(target), std::end(target), [&](std::byte byte) { return byte == wanted; }));
  };
  for (int i = 0; i < 1'500; ++i) ASSERT_NO_FATAL_FAILURE(get());  // by now everything has the size that it needs
  const std::uint64_t before = own_resident_bytes();
  std::uint64_t gets = 0;
  for (const Deadline end = Deadline::after(duration()); !end.expired(); ++gets) ASSERT_NO_FATAL_FAILURE(get());
  const rcache::Statistics statistics = b.context->registration_statistics();
  EXPECT_EQ(statistics.failures, 0U);
  EXPECT_GE(statistics.evictions, gets * 9 / 10);
  EXPECT_LE(statistics.registered.count, 1000U);
  EXPECT_LT(own_resident_bytes(), before + (std::uint64_t{4} << 20)) << "memory grows, over " << gets << " gets";
  std::printf("%llu gets\n", static_cast<unsigned long long>(gets));
}

}  // namespace
}  // namespace opal::test
