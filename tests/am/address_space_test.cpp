// SPDX-License-Identifier: Apache-2.0
// A peer reaches memory that did not exist when it got the key, as long as it exists, with the rights it has.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "opal/am/context.hpp"
#include "opal/core/sanitizer.hpp"
#include "opal/core/system/raw_syscall.hpp"
#include "opal/memory/events/monitor.hpp"
#include "tests/am/pair.hpp"

namespace opal::test {
namespace {

constexpr std::size_t kSize = std::size_t{256} << 10;

class WholeAddressSpace : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (memory::chosen_monitor()->monitor == nullptr ||
        std::string_view{memory::chosen_monitor()->monitor} != "patcher") {
      GTEST_SKIP() << "needs patcher: x86-64, and a program that starts with one thread";
    }
    auto connected = a.context->connect(b.context->address());
    ASSERT_TRUE(connected);
    to_b = *connected;
    auto enabled = b.context->register_address_space(Rights::all);
    if (!enabled && enabled.error().code == Errc::not_supported) {
      GTEST_SKIP() << GetParam() << " has no handle for a whole address space";
    }
    ASSERT_TRUE(enabled) << to_string(enabled.error());
    everything.emplace(std::move(*enabled));
    auto unpacked = to_b->unpack_key(everything->key());
    if (!unpacked) GTEST_SKIP() << GetParam() << " has no handle for a whole address space";
    key = *unpacked;
  }
  Errc get(std::vector<std::byte>& into, const void* from) {
    return finish(
               [&](Completion& done) {
                 return to_b->get(into.data(), reinterpret_cast<std::uint64_t>(from), key, into.size(), done);
               },
               *a.context, *b.context)
        .code;
  }
  Errc put(const std::vector<std::byte>& from, void* to) {
    return finish(
               [&](Completion& done) {
                 return to_b->put(from.data(), reinterpret_cast<std::uint64_t>(to), key, from.size(), done);
               },
               *a.context, *b.context)
        .code;
  }
  static std::byte* map() {
    return static_cast<std::byte*>(::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }

  Side a{GetParam()};
  Side b{GetParam()};
  am::Endpoint* to_b = nullptr;
  std::optional<am::Region> everything;
  MemoryHandle key;
};
INSTANTIATE_TEST_SUITE_P(Over, WholeAddressSpace, ::testing::ValuesIn(joining_transports()),
                         [](const auto& info) { return info.param; });

TEST_P(WholeAddressSpace, OneKeyReachesWhateverIsMappedWhenItIsUsed) {
  std::vector<std::byte> bytes(kSize);
  const std::vector<std::byte> fives(kSize, std::byte{5});
  for (int round = 0; round < 5; ++round) {
    std::byte* const at = map();
    EXPECT_EQ(put(fives, at), Errc{});
    EXPECT_TRUE(std::equal(fives.begin(), fives.end(), at));
    EXPECT_EQ(get(bytes, at), Errc{});
    EXPECT_EQ(bytes, fives);
    ::munmap(at, kSize);
    EXPECT_EQ(get(bytes, at), Errc::invalid_argument);
  }
#if !OPAL_ADDRESS_SANITIZER  // its allocator makes system calls of its own, which no monitor sees
  std::vector<std::byte> heap(kSize, std::byte{7});
  EXPECT_EQ(get(bytes, heap.data()), Errc{});
  EXPECT_EQ(bytes, heap);
#endif
}

TEST_P(WholeAddressSpace, WhatTheMappingForbidsIsRefusedAndNothingIsWritten) {
  std::vector<std::byte> bytes(kSize);
  const std::vector<std::byte> fives(kSize, std::byte{5});
  std::byte* const at = map();
  ::mprotect(at, kSize, PROT_READ);
  EXPECT_EQ(put(fives, at), Errc::permission);
  EXPECT_EQ(at[0], std::byte{0});
  EXPECT_EQ(get(bytes, at), Errc{});
  ::mprotect(at, kSize, PROT_NONE);
  EXPECT_EQ(get(bytes, at), Errc::permission);
  ::munmap(at, kSize);
  EXPECT_NE(get(bytes, nullptr), Errc{});
}

TEST_P(WholeAddressSpace, ExcludedAndUnregisteredMemoryIsOutOfReach) {
  std::vector<std::byte> bytes(kSize);
  std::byte* const at = map();
  everything->exclude(at + kSize / 2, 4096);
  EXPECT_EQ(get(bytes, at), Errc::invalid_argument);
  everything->include(at + kSize / 2, 4096);
  EXPECT_EQ(get(bytes, at), Errc{});
  auto hidden = everything->map_unregistered(kSize);
  ASSERT_TRUE(hidden);
  EXPECT_EQ(get(bytes, hidden->data()), Errc::invalid_argument);
  ::munmap(at, kSize);
}

TEST_P(WholeAddressSpace, MemoryMappedWithoutLibcIsFoundWhenAPeerAsksForIt) {
  std::vector<std::byte> bytes(kSize);
  const long at = raw_syscall(SYS_mmap, 0, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_GT(at, 0);
  auto* const unseen = reinterpret_cast<std::byte*>(at);
  std::fill_n(unseen, kSize, std::byte{9});
  Errc last = Errc::internal;
  // At the latest when the list may be read again.
  EXPECT_TRUE(pump([&] { return (last = get(bytes, unseen)) != Errc::invalid_argument; }, *a.context, *b.context));
  EXPECT_EQ(last, Errc{});
  EXPECT_EQ(bytes[0], std::byte{9});
  raw_syscall(SYS_munmap, at, kSize);
}

TEST_P(WholeAddressSpace, TheKeyIsStaleWhenItEndsAndANewOneCanBeMade) {
  std::vector<std::byte> bytes(kSize);
  std::byte* const at = map();
  EXPECT_FALSE(b.context->register_address_space(Rights::all)) << "one per Context";
  everything.reset();
  EXPECT_EQ(get(bytes, at), Errc::invalid_argument);
  auto again = b.context->register_address_space(Rights::remote_read);
  ASSERT_TRUE(again);
  key = *to_b->unpack_key(again->key());
  EXPECT_EQ(get(bytes, at), Errc{});
  EXPECT_EQ(put(bytes, at), Errc::permission);
  ::munmap(at, kSize);
}

}  // namespace
}  // namespace opal::test
