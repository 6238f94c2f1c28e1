// SPDX-License-Identifier: Apache-2.0
// The queue of bytes that wait: order across wrap-around, and bounds.
#include "opal/btl/tcp/output_queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace opal::btl::tcp {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes_from(std::uint32_t& state, std::size_t size) {
  Bytes bytes(size);
  for (std::byte& one : bytes) one = static_cast<std::byte>((state = state * 1664525U + 1013904223U) >> 24);
  return bytes;
}

/// What gather() describes, as the kernel would read it, at most `limit` bytes.
Bytes look(const OutputQueue& queue, std::size_t limit) {
  Bytes bytes;
  for (const iovec& part : queue.gather()) {
    const auto* base = static_cast<const std::byte*>(part.iov_base);
    bytes.insert(bytes.end(), base, base + part.iov_len);
  }
  EXPECT_EQ(bytes.size(), queue.backlog());
  bytes.resize(std::min(bytes.size(), limit));
  return bytes;
}

TEST(OutputQueue, GivesBackTheStreamThatWentIn) {
  Bytes ring(5000);
  OutputQueue queue{ring};
  std::mt19937 random{3};
  std::uint32_t state = 1;
  Bytes expected;
  Bytes got;
  const auto consume = [&](std::size_t limit) {
    const Bytes taken = look(queue, limit);
    got.insert(got.end(), taken.begin(), taken.end());
    queue.consume(taken.size());
  };
  for (int step = 0; step < 20'000; ++step) {
    const std::size_t size = random() % 700 + 1;
    if (random() % 2 == 0) {
      consume(random() % 1500);
    } else if (queue.fits(size)) {
      const Bytes bytes = bytes_from(state, size);
      expected.insert(expected.end(), bytes.begin(), bytes.end());
      queue.append(bytes);
    }
  }
  while (!queue.empty()) consume(1000);
  EXPECT_EQ(got, expected);
}

TEST(OutputQueue, SaysWhenItIsFullAndKeepsRoomForALastWord) {
  Bytes ring(1024);
  OutputQueue queue{ring};
  EXPECT_FALSE(queue.fits(1024));
  EXPECT_TRUE(queue.fits(1024 - OutputQueue::kReserve));
  queue.append(Bytes(1024 - OutputQueue::kReserve));
  EXPECT_FALSE(queue.fits(1));
  queue.append(Bytes(8));  // the last word
  EXPECT_EQ(queue.backlog(), 1024 - OutputQueue::kReserve + 8);
}

}  // namespace
}  // namespace opal::btl::tcp
