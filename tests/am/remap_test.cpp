// SPDX-License-Identifier: Apache-2.0
// Memory replaced under a live registration cache: peers get the new bytes or a refusal, never the old ones.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "opal/memory/monitor.hpp"
#include "tests/am/pair.hpp"
#include "tests/harness/apart.hpp"

namespace opal::test {
namespace {

constexpr std::size_t kSize = std::size_t{1} << 20;

bool full_of(const std::vector<std::byte>& bytes, int value) {
  return std::all_of(bytes.begin(), bytes.end(), [&](std::byte byte) { return byte == static_cast<std::byte>(value); });
}

class Remap : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (memory::chosen_monitor()->monitor == nullptr) {
      GTEST_SKIP() << "needs patcher: x86-64, and a program that starts with one thread";
    }
    auto connected = a.context->connect(b.context->address());
    ASSERT_TRUE(connected);
    to_b = *connected;
    const std::uint64_t hello = 0;
    ASSERT_EQ(to_b->send_or_queue(kTag, bytes_of(hello), {}), Post::done);
    ASSERT_TRUE(pump([&] { return b.messages == 1; }, *a.context, *b.context));
    place = fresh(nullptr, 1);
  }
  void TearDown() override {
    if (place != nullptr) ::munmap(place, kSize);
  }

  /// New memory full of `value`, at `where` if not null.
  static std::byte* fresh(void* where, int value) {
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    void* const at =
        where != nullptr ? ::mmap(where, kSize, PROT_READ | PROT_WRITE, kFlags, -1, 0) : test::map_apart(kSize);
    EXPECT_NE(at, MAP_FAILED);
    std::memset(at, value, kSize);
    return static_cast<std::byte*>(at);
  }

  /// Unmaps b's memory at `where`.  A device refuses peers from its owner's next progress() on, software at once.
  void unmap(std::byte* where) {
    ::munmap(where, kSize);
    if (GetParam() == "verbs") b.context->progress();
  }

  /// What `a` knows of b's memory.
  static std::vector<std::byte> copy(ByteSpan handle) { return {handle.begin(), handle.end()}; }
  am::ExposedMemory expose() {
    auto memory = b.from->expose(place, kSize, Rights::all);
    EXPECT_TRUE(memory);
    return std::move(*memory);
  }

  /// Reads b's memory through `handle`; the bytes if it worked.
  Error read(const std::vector<std::byte>& handle, std::vector<std::byte>& bytes) {
    const auto remote = MemoryHandle::from_bytes(handle);
    bytes.assign(kSize, std::byte{0});
    return finish(
        [&](Completion& done) {
          return to_b->get(bytes.data(), reinterpret_cast<std::uint64_t>(place), *remote, kSize, done);
        },
        *a.context, *b.context);
  }

  Side a{GetParam()};
  Side b{GetParam()};
  am::Endpoint* to_b = nullptr;
  std::byte* place = nullptr;
};
INSTANTIATE_TEST_SUITE_P(Over, Remap, ::testing::ValuesIn(joining_transports()),
                         [](const auto& info) { return info.param; });

TEST_P(Remap, AnIdleRegistrationOfMemoryThatWentIsRefusedAndANewOneSeesTheNewBytes) {
  std::vector<std::byte> bytes;
  std::vector<std::byte> handle;
  for (int round = 1; round <= 20; ++round) {
    const auto before = handle;
    handle = copy(expose().handle());
    EXPECT_EQ(copy(expose().handle()), handle) << "the cache keeps it";
    EXPECT_NE(handle, before);
    ASSERT_EQ(read(handle, bytes).code, Errc{});
    EXPECT_TRUE(full_of(bytes, round));
    unmap(place);
    fresh(place, round + 1);
    EXPECT_NE(read(handle, bytes).code, Errc{}) << "the old handle must not reach what is there now";
  }
}

TEST_P(Remap, TheCallersOwnMemoryThatWasReplacedIsSentAndFilledAsItIsNow) {
  const am::ExposedMemory exposed = expose();
  const auto remote = *MemoryHandle::from_bytes(exposed.handle());
  const auto address = reinterpret_cast<std::uint64_t>(place);
  std::byte* own = fresh(nullptr, 0);
  for (int round = 1; round <= 20; ++round) {
    ::munmap(own, kSize);
    own = fresh(own, round);
    ASSERT_EQ(
        finish([&](Completion& done) { return to_b->put(own, address, remote, kSize, done); }, *a.context, *b.context)
            .code,
        Errc{});
    EXPECT_TRUE(full_of({place, place + kSize}, round));
    ::munmap(own, kSize);
    own = fresh(own, 99);
    ASSERT_EQ(
        finish([&](Completion& done) { return to_b->get(own, address, remote, kSize, done); }, *a.context, *b.context)
            .code,
        Errc{});
    EXPECT_TRUE(full_of({own, own + kSize}, round)) << "bytes went to memory that is gone";
  }
  ::munmap(own, kSize);
}

TEST_P(Remap, ARegistrationInUseBecomesStaleAtOnceAndOnlyThisOne) {
  std::byte* other = fresh(nullptr, 9);
  auto kept = b.from->expose(other, kSize, Rights::all);
  ASSERT_TRUE(kept);
  const am::ExposedMemory used = expose();
  const auto handle = copy(used.handle());
  unmap(place);
  std::vector<std::byte> bytes;
  EXPECT_EQ(read(handle, bytes).code, Errc::invalid_argument);
  fresh(place, 2);
  EXPECT_EQ(read(handle, bytes).code, Errc::invalid_argument);
  const am::ExposedMemory again = expose();
  ASSERT_EQ(read(copy(again.handle()), bytes).code, Errc{});
  EXPECT_TRUE(full_of(bytes, 2));
  std::swap(place, other);
  ASSERT_EQ(read(copy(kept->handle()), bytes).code, Errc{});
  EXPECT_TRUE(full_of(bytes, 9));
  ::munmap(other, kSize);
}

TEST_P(Remap, FreeingALargeBlockIsEnough) {
  std::vector<std::byte> bytes;
  ::munmap(place, kSize);
  auto block = std::make_unique_for_overwrite<std::byte[]>(64 * kSize);
  place = block.get();
  std::memset(place, 3, kSize);
  const auto handle = copy(expose().handle());
  ASSERT_EQ(read(handle, bytes).code, Errc{});
  EXPECT_TRUE(full_of(bytes, 3));
  block.reset();
  if (GetParam() == "verbs") b.context->progress();
#if !defined(__SANITIZE_ADDRESS__)  // keeps freed blocks for a while
  EXPECT_EQ(read(handle, bytes).code, Errc::invalid_argument);
#endif
  place = nullptr;
}

}  // namespace
}  // namespace opal::test
