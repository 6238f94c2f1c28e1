// SPDX-License-Identifier: Apache-2.0
// Memory keys: one handle per kind of transport, found again by name; a peer's garbage is refused.
#include "opal/am/transports/key.hpp"

#include <gtest/gtest.h>

#include <random>

namespace opal::am {
namespace {

MemoryHandle handle_of(std::size_t size, unsigned fill) {
  const std::vector<std::byte> bytes(size, static_cast<std::byte>(fill));
  return *MemoryHandle::from_bytes(bytes);
}

bool same(const MemoryHandle& a, const MemoryHandle& b) {
  return std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin(), b.bytes().end());
}

std::vector<std::byte> sample() {
  std::vector<std::byte> key;
  append_handle(key, "", handle_of(24, 1));
  append_handle(key, "verbs", handle_of(MemoryHandle::kMaxSize, 2));
  return key;
}

TEST(Key, FindsTheTransportsOwnHandle) {
  const auto handle = find_handle(sample(), "verbs");
  ASSERT_TRUE(handle);
  EXPECT_TRUE(same(*handle, handle_of(MemoryHandle::kMaxSize, 2)));
}

TEST(Key, OthersUseTheSharedHandle) {
  for (const char* name : {"sm", "tcp"}) {
    const auto handle = find_handle(sample(), name);
    ASSERT_TRUE(handle);
    EXPECT_TRUE(same(*handle, handle_of(24, 1)));
  }
}

TEST(Key, WithoutASharedHandleOthersAreUnreachable) {
  std::vector<std::byte> key;
  append_handle(key, "verbs", handle_of(16, 2));
  const auto handle = find_handle(key, "tcp");
  ASSERT_FALSE(handle);
  EXPECT_EQ(handle.error().code, Errc::unreachable);
}

TEST(Key, EveryTruncationIsRefused) {
  const std::vector<std::byte> key = sample();
  for (std::size_t size = 0; size < key.size(); ++size) {
    const std::vector<std::byte> part(key.begin(), key.begin() + static_cast<std::ptrdiff_t>(size));
    const auto handle = find_handle(part, "sm");
    ASSERT_FALSE(handle) << size;
    EXPECT_EQ(handle.error().code, Errc::protocol);
  }
}

TEST(Key, BytesAfterTheEndAreRefused) {
  std::vector<std::byte> key = sample();
  key.push_back(std::byte{9});
  EXPECT_FALSE(find_handle(key, "sm"));
}

TEST(Key, AHandleLongerThanAnyIsRefused) {
  std::vector<std::byte> key{std::byte{1}, std::byte{0}, std::byte{255}};
  key.resize(key.size() + 255);
  const auto handle = find_handle(key, "sm");
  ASSERT_FALSE(handle);
  EXPECT_EQ(handle.error().code, Errc::protocol);
}

TEST(Key, NoGarbageGivesAHandleLongerThanAllowed) {
  std::mt19937 random{7};
  const std::vector<std::byte> good = sample();
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::byte> key = good;
    for (unsigned flips = random() % 6 + 1; flips > 0; --flips) key[random() % 40] = std::byte(random());
    key.resize(random() % (key.size() + 4));
    key.shrink_to_fit();
    if (const auto handle = find_handle(key, i % 2 == 0 ? "verbs" : "sm")) {
      EXPECT_LE(handle->bytes().size(), MemoryHandle::kMaxSize);
    }
  }
}

}  // namespace
}  // namespace opal::am
