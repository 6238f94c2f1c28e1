// SPDX-License-Identifier: Apache-2.0
// Exposed memory: of an enormous buffer only pieces are registered with a device, and what is unmapped of a buffer
// takes nothing else with it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "opal/am/memory/registered_pool.hpp"
#include "opal/am/region.hpp"
#include "opal/memory/events/monitor.hpp"
#include "tests/am/pair.hpp"
#include "tests/harness/log_lines.hpp"

namespace opal::test {
namespace {

constexpr std::size_t kPage = 4096;

struct Area {
  explicit Area(std::size_t size) : size(size) {
    bytes = static_cast<std::byte*>(::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / kPage);
  }
  Area(const Area&) = delete;
  Area& operator=(const Area&) = delete;
  ~Area() { ::munmap(bytes, size); }
  std::byte* bytes;
  std::size_t size;
};

bool monitored() { return memory::chosen_monitor() != nullptr && memory::chosen_monitor()->monitor != nullptr; }

config::Store device_with_room_for(std::size_t bytes) {
  config::Store store;
  store.set("btl_sim_registered_bytes", std::to_string(bytes));
  store.set("rcache_grdma_max_chunk", "64K");
  return store;
}

TEST(CacheStatistics, AreToldAtTheEndOfAContextToThoseThatReadTheLog) {
  const LogLines lines{log::Level::info};
  {
    Side a{"sim"};
    Side b{"sim"};
    auto connected = a.context->connect(b.context->address());
    ASSERT_TRUE(connected);
    ASSERT_TRUE(pump([&] { return !b.connected.empty(); }, *a.context, *b.context));
    const Area source{1 << 20};
    const auto exposed = b.connected[0]->expose(source.bytes, source.size, Rights::remote_read);
    ASSERT_TRUE(exposed) << to_string(exposed.error());
  }
  EXPECT_THAT(lines.texts(), ::testing::Contains(::testing::StartsWith("registrations of memory: 0 hits, 1 misses, ")));
}

TEST(EnormousBuffer, IsNeverRegisteredAsAWholeByTheSideThatExposesIt) {
  constexpr std::size_t kWindow = 64 << 10;
  constexpr std::size_t kSize = 4 << 20;
  // Room for one window and the pages that its ends share with others: more than that is refused by the device.
  Side a{"sim", am::ThreadLevel::single, {}, device_with_room_for(kWindow + 2 * kPage)};
  Side b{"sim", am::ThreadLevel::single, {}, device_with_room_for(kWindow + 2 * kPage)};
  auto connected = a.context->connect(b.context->address());
  ASSERT_TRUE(connected);
  ASSERT_TRUE(pump([&] { return !b.connected.empty(); }, *a.context, *b.context));
  const Area source{kSize};
  auto exposed = b.connected[0]->expose(source.bytes, kSize, Rights::remote_read);
  ASSERT_TRUE(exposed) << to_string(exposed.error());
  EXPECT_EQ(b.context->registration_statistics().misses, 1U) << "the table's handle";
  const auto handle = MemoryHandle::from_bytes(exposed->handle());
  ASSERT_TRUE(handle);
  std::vector<std::byte> target(kSize);
  const Error error = finish(
      [&](Completion& done) {
        return (*connected)->get(target.data(), reinterpret_cast<std::uint64_t>(source.bytes), *handle, kSize, done);
      },
      *a.context, *b.context);
  EXPECT_EQ(error.code, Errc{}) << to_string(error);
  EXPECT_EQ(std::memcmp(target.data(), source.bytes, kSize), 0);
  const rcache::Statistics owner = b.context->registration_statistics();
  EXPECT_GE(owner.misses, kSize / (kWindow / 2)) << "each piece was registered, not moved by messages";
  if (monitored()) {
    EXPECT_GE(owner.evictions, kSize / (kWindow / 2) - 4) << "and gave way to a later one";
  }

  exposed->reset();
  const Error later = finish(
      [&](Completion& done) {
        return (*connected)->get(target.data(), reinterpret_cast<std::uint64_t>(source.bytes), *handle, kSize, done);
      },
      *a.context, *b.context);
  (void)later;  // kept for the next exposure: the handle may be good
  if (!monitored()) return;
  ASSERT_NE(::mmap(source.bytes, kSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), MAP_FAILED);
  const Error gone = finish(
      [&](Completion& done) {
        return (*connected)->get(target.data(), reinterpret_cast<std::uint64_t>(source.bytes), *handle, kSize, done);
      },
      *a.context, *b.context);
  EXPECT_EQ(gone.code, Errc::invalid_argument) << to_string(gone);
}

TEST(EnormousBuffer, ThatIsRegisteredAlreadyIsExposedAsOne) {
  config::Store store;
  store.set("rcache_grdma_max_chunk", "64K");
  Side a{"sim", am::ThreadLevel::single, {}, store};
  Side b{"sim", am::ThreadLevel::single, {}, store};
  auto connected = a.context->connect(b.context->address());
  ASSERT_TRUE(connected);
  auto pool = am::RegisteredPool::open(*b.context);
  ASSERT_TRUE(pool);
  ASSERT_TRUE(pump([&] { return !b.connected.empty(); }, *a.context, *b.context));
  auto block = (*pool)->allocate(512 << 10);
  ASSERT_TRUE(block);
  const std::uint64_t before = b.context->registration_statistics().misses;
  auto exposed = b.connected[0]->expose(*block, 512 << 10, Rights::remote_read);
  ASSERT_TRUE(exposed);
  EXPECT_EQ(b.context->registration_statistics().misses, before);
  exposed->reset();
  EXPECT_TRUE((*pool)->deallocate(*block));
}

class ExposedHalf : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Over, ExposedHalf, ::testing::ValuesIn(joining_transports()),
                         [](const auto& info) { return info.param; });

TEST_P(ExposedHalf, StaysInReachWhenTheOtherHalfOfItsRegistrationIsUnmapped) {
  constexpr std::size_t kHalf = 256 << 10;
  Side a{GetParam()};
  Side b{GetParam()};
  if (!monitored()) GTEST_SKIP() << "needs monitor: without one nothing is kept, so no registration is larger";
  auto connected = a.context->connect(b.context->address());
  ASSERT_TRUE(connected);
  ASSERT_TRUE(pump([&] { return !b.connected.empty(); }, *a.context, *b.context));
  for (int way = 0; way < 3; ++way) {
    auto* const at =
        static_cast<std::byte*>(::mmap(nullptr, 2 * kHalf, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::memset(at, 5, 2 * kHalf);
    ASSERT_TRUE(b.connected[0]->expose(at, 2 * kHalf, Rights::all));  // and given back
    auto half = b.connected[0]->expose(at, kHalf, Rights::all);
    ASSERT_TRUE(half);
    const auto handle = MemoryHandle::from_bytes(half->handle());
    const auto get = [&](const std::byte* from) {
      std::vector<std::byte> bytes(kHalf);
      const Error error = finish(
          [&](Completion& done) {
            return (*connected)->get(bytes.data(), reinterpret_cast<std::uint64_t>(from), *handle, kHalf, done);
          },
          *a.context, *b.context);
      if (error.code == Errc{}) {
        EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{5}; }));
      }
      return error.code;
    };
    EXPECT_EQ(get(at), Errc{});
    switch (way) {
      case 0: ::munmap(at + kHalf, kHalf); break;
      case 1: ::madvise(at + kHalf, kHalf, MADV_DONTNEED); break;
      default: ASSERT_EQ(::mremap(at, 2 * kHalf, kHalf, 0), at); break;
    }
    EXPECT_EQ(get(at), Errc{}) << "way " << way;
    if (GetParam() != "verbs" && GetParam() != "sim") {  // these hold the old pages until the lease ends
      EXPECT_EQ(get(at + kHalf), Errc::invalid_argument) << "way " << way;
    }
    half->reset();
    ::munmap(at, 2 * kHalf);
  }
}

}  // namespace
}  // namespace opal::test
