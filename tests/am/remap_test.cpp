// SPDX-License-Identifier: Apache-2.0
// Memory replaced under a live registration cache: peers get the new bytes or a refusal, never the old ones.
#include <gmock/gmock.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "opal/core/sanitizer.hpp"
#include "opal/memory/events/monitor.hpp"
#include "opal/mpool/pool.hpp"
#include "tests/am/pair.hpp"
#include "tests/harness/apart.hpp"

#if OPAL_ADDRESS_SANITIZER
extern "C" void __sanitizer_purge_allocator();
#endif

namespace opal::test {
namespace {

constexpr std::size_t kSize = std::size_t{1} << 20;

bool full_of(const std::vector<std::byte>& bytes, int value) {
  return std::all_of(bytes.begin(), bytes.end(), [&](std::byte byte) { return byte == static_cast<std::byte>(value); });
}

/// How bytes are brought over.
struct Way {
  std::string name;
  std::string transport;
  std::vector<std::pair<const char*, const char*>> settings = {};

  [[nodiscard]] config::Store store() const {
    config::Store store;
    for (const auto& [key, value] : settings) store.set(key, value);
    return store;
  }
};

/// Each transport as it chooses itself, and each way of shared memory alone.
std::vector<Way> ways() {
  std::vector<Way> ways;
  for (const std::string& name : joining_transports()) ways.push_back({name, name});
  const auto sm = [&](const char* name, const char* single_copy, const char* large_get) {
    ways.push_back({name, "sm", {{"btl_sm_single_copy", single_copy}, {"btl_sm_large_get", large_get}}});
  };
  sm("sm_cma", "cma", "alone");
  sm("sm_cma_cooperative", "cma", "cooperative");
  sm("sm_pipelined", "cma", "pipelined");
  sm("sm_shared", "shared", "alone");
  sm("sm_none", "none", "alone");
  return ways;
}

class Remap : public ::testing::TestWithParam<Way> {
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
    if (GetParam().name.starts_with("sm_cma")) {
      if (to_b->explain().find("cma: probe copied") == std::string::npos)
        GTEST_SKIP() << "needs cma: " << to_b->explain();
    }
    place = fresh(nullptr, 1);
  }
  void TearDown() override {
    if (place != nullptr) unmap(place);
  }

  [[nodiscard]] bool by_shared_pool() const { return GetParam().name == "sm_shared"; }

  /// New memory full of `value`, at `where` if not null.
  std::byte* fresh(void* where, int value) {
    void* at = where;
    if (where != nullptr) {
      const int fixed = by_shared_pool() ? MAP_FIXED : MAP_FIXED_NOREPLACE;
      at = ::mmap(where, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
    } else if (by_shared_pool()) {
      pools.push_back(*mpool::open("shared"));
      at = *pools.back()->allocate(kSize, 4096);
    } else {
      at = test::map_apart(kSize);
    }
    EXPECT_NE(at, MAP_FAILED);
    std::memset(at, value, kSize);
    return static_cast<std::byte*>(at);
  }

  /// Takes the memory at `where` away.  The addresses of a pool stay taken: it unmaps them when it ends.
  void unmap(std::byte* where) {
    if (by_shared_pool()) {
      ::mmap(where, kSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    } else {
      ::munmap(where, kSize);
    }
    // A device refuses peers from its owner's next progress() on, software at once.
    if (has_device()) b.context->progress();
  }

  [[nodiscard]] static bool has_device() {
    return GetParam().transport == "verbs" || GetParam().transport == "portals4";
  }

  /// Returns when the memory of `handle` is in reach without b, where that is the way.
  void wait_for_mapping(const std::vector<std::byte>& handle) {
    if (!by_shared_pool()) return;
    const auto remote = MemoryHandle::from_bytes(handle);
    ASSERT_TRUE(pump(
        [&] {
          std::byte byte{};
          Flag flag;
          const Post post = to_b->get(&byte, reinterpret_cast<std::uint64_t>(place), *remote, 1, flag);
          if (post == Post::queued) {
            EXPECT_TRUE(pump([&] { return flag.calls != 0; }, *a.context, *b.context));
          }
          return post == Post::done;
        },
        *a.context, *b.context));
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

  Side a{GetParam().transport, am::ThreadLevel::single, {}, GetParam().store()};
  Side b{GetParam().transport, am::ThreadLevel::single, {}, GetParam().store()};
  am::Endpoint* to_b = nullptr;
  std::byte* place = nullptr;
  std::vector<std::unique_ptr<mpool::Pool>> pools;
};
INSTANTIATE_TEST_SUITE_P(Over, Remap, ::testing::ValuesIn(ways()), [](const auto& info) { return info.param.name; });

TEST_P(Remap, AnIdleRegistrationOfMemoryThatWentIsRefusedAndANewOneSeesTheNewBytes) {
  std::vector<std::byte> bytes;
  std::vector<std::byte> handle;
  for (int round = 1; round <= 20; ++round) {
    const auto before = handle;
    handle = copy(expose().handle());
    EXPECT_EQ(copy(expose().handle()), handle) << "the cache keeps it";
    EXPECT_NE(handle, before);
    ASSERT_NO_FATAL_FAILURE(wait_for_mapping(handle));
    ASSERT_EQ(read(handle, bytes).code, Errc{});
    EXPECT_TRUE(full_of(bytes, round));
    unmap(place);
    fresh(place, round + 1);
    EXPECT_NE(read(handle, bytes).code, Errc{}) << "the old handle must not reach what is there now";
    if (by_shared_pool()) place = fresh(nullptr, round + 1);  // nothing else of that pool is shared any more
  }
}

TEST_P(Remap, TheCallersOwnMemoryThatWasReplacedIsSentAndFilledAsItIsNow) {
  const am::ExposedMemory exposed = expose();
  ASSERT_NO_FATAL_FAILURE(wait_for_mapping(copy(exposed.handle())));
  const auto remote = *MemoryHandle::from_bytes(exposed.handle());
  const auto address = reinterpret_cast<std::uint64_t>(place);
  std::byte* own = fresh(nullptr, 0);
  for (int round = 1; round <= 20; ++round) {
    unmap(own);
    own = fresh(own, round);
    ASSERT_EQ(
        finish([&](Completion& done) { return to_b->put(own, address, remote, kSize, done); }, *a.context, *b.context)
            .code,
        Errc{});
    EXPECT_TRUE(full_of({place, place + kSize}, round));
    unmap(own);
    own = fresh(own, 99);
    ASSERT_EQ(
        finish([&](Completion& done) { return to_b->get(own, address, remote, kSize, done); }, *a.context, *b.context)
            .code,
        Errc{});
    EXPECT_TRUE(full_of({own, own + kSize}, round)) << "bytes went to memory that is gone";
  }
  unmap(own);
}

TEST_P(Remap, ARegistrationInUseBecomesStaleAtOnceAndOnlyThisOne) {
  std::byte* other = fresh(nullptr, 9);
  auto kept = b.from->expose(other, kSize, Rights::all);
  ASSERT_TRUE(kept);
  const am::ExposedMemory used = expose();
  const auto handle = copy(used.handle());
  ASSERT_NO_FATAL_FAILURE(wait_for_mapping(handle));
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
  unmap(other);
}

TEST_P(Remap, FreeingALargeBlockIsEnough) {
  std::vector<std::byte> bytes;
  unmap(place);
  auto block = std::make_unique_for_overwrite<std::byte[]>(64 * kSize);
  place = block.get();
  std::memset(place, 3, kSize);
  const auto handle = copy(expose().handle());
  ASSERT_EQ(read(handle, bytes).code, Errc{});
  EXPECT_TRUE(full_of(bytes, 3));
  block.reset();
#if OPAL_ADDRESS_SANITIZER
  __sanitizer_purge_allocator();  // it keeps freed blocks for a while
#endif
  if (has_device()) b.context->progress();
  EXPECT_EQ(read(handle, bytes).code, Errc::invalid_argument);
  place = nullptr;
}

}  // namespace
}  // namespace opal::test
