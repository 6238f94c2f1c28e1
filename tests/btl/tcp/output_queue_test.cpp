// SPDX-License-Identifier: Apache-2.0
// The queue of bytes that wait: order across wrap-around and references, bounds, and what becomes of references.
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
Bytes look(const OutputQueue& queue, std::size_t vectors, std::size_t limit) {
  std::vector<iovec> list(vectors);
  const std::size_t used = queue.gather(list.data(), vectors);
  EXPECT_LE(used, vectors);
  Bytes bytes;
  for (std::size_t i = 0; i < used; ++i) {
    const auto* base = static_cast<const std::byte*>(list[i].iov_base);
    bytes.insert(bytes.end(), base, base + list[i].iov_len);
  }
  bytes.resize(std::min(bytes.size(), limit));
  return bytes;
}

TEST(OutputQueue, GivesBackTheStreamThatWentInWhateverTheMix) {
  Bytes ring(5000);
  OutputQueue queue{ring};
  std::mt19937 random{3};
  std::uint32_t state = 1;
  Bytes expected;
  Bytes got;
  std::vector<std::unique_ptr<Bytes>> referenced;
  std::size_t ended = 0;
  for (int step = 0; step < 20'000; ++step) {
    const std::size_t size = random() % 700 + 1;
    if (random() % 2 == 0) {
      if (random() % 4 == 0 && queue.fits(0)) {
        referenced.push_back(std::make_unique<Bytes>(bytes_from(state, size)));
        expected.insert(expected.end(), referenced.back()->begin(), referenced.back()->end());
        queue.append_reference(*referenced.back(), {nullptr, referenced.back().get()});
      } else if (queue.fits(size)) {
        const Bytes bytes = bytes_from(state, size);
        expected.insert(expected.end(), bytes.begin(), bytes.end());
        queue.append(bytes);
      }
    } else {
      const Bytes taken = look(queue, random() % 5 + 1, random() % 1500);
      got.insert(got.end(), taken.begin(), taken.end());
      queue.consume(taken.size(), [&](const OutputQueue::Referenced& what) {
        EXPECT_EQ(what.slot, referenced[ended].get()) << "references end in order";
        ++ended;
      });
    }
  }
  while (!queue.empty()) {
    const Bytes taken = look(queue, 3, 1000);
    got.insert(got.end(), taken.begin(), taken.end());
    queue.consume(taken.size(), [&](const OutputQueue::Referenced&) { ++ended; });
  }
  EXPECT_EQ(got, expected);
  EXPECT_EQ(ended, referenced.size());
  EXPECT_EQ(queue.backlog(), 0U);
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

TEST(OutputQueue, IsBoundedInPiecesToo) {
  Bytes ring(1 << 20);
  OutputQueue queue{ring};
  const Bytes one(1);
  std::size_t pieces = 0;
  while (queue.fits(0)) {
    queue.append_reference(one, {});
    ++pieces;
  }
  EXPECT_EQ(pieces, OutputQueue::kMaxPieces - 1);
  queue.append(one);  // the last word has its piece
  EXPECT_EQ(queue.backlog(), pieces + 1);
}

TEST(OutputQueue, DetachedItNeedsNobodysMemory) {
  Bytes ring(1024);
  OutputQueue queue{ring};
  std::uint32_t state = 5;
  Bytes mine = bytes_from(state, 300);
  Bytes also_mine = bytes_from(state, 200);
  Bytes expected = mine;
  const Bytes copied = bytes_from(state, 50);
  expected.insert(expected.end(), copied.begin(), copied.end());
  expected.insert(expected.end(), also_mine.begin(), also_mine.end());
  queue.append_reference(mine, {nullptr, &mine});
  queue.append(copied);
  queue.append_reference(also_mine, {nullptr, &also_mine});
  queue.consume(10, [](const OutputQueue::Referenced&) { FAIL() << "not finished"; });
  Mapping storage;
  std::vector<void*> ended;
  ASSERT_TRUE(queue.detach(storage, [&](const OutputQueue::Referenced& what) { ended.push_back(what.slot); }));
  EXPECT_EQ(ended, (std::vector<void*>{&mine, &also_mine}));
  std::fill(mine.begin(), mine.end(), std::byte{0});
  std::fill(also_mine.begin(), also_mine.end(), std::byte{0});
  EXPECT_EQ(look(queue, 10, 10'000), Bytes(expected.begin() + 10, expected.end()));
}

TEST(OutputQueue, WithoutMemoryForTheCopiesItKeepsItsReferences) {
  Bytes ring(1024);
  OutputQueue queue{ring};
  std::byte mine{};
  const auto huge = static_cast<std::size_t>(PTRDIFF_MAX);  // no kernel maps that much
  queue.append_reference({&mine, huge}, {nullptr, &mine});
  Mapping storage;
  const auto none = [](const OutputQueue::Referenced&) { FAIL() << "not finished"; };
  const auto detached = queue.detach(storage, none);
  ASSERT_FALSE(detached);
  EXPECT_EQ(detached.error().code, Errc::no_memory);
  std::size_t ended = 0;
  queue.clear([&](const OutputQueue::Referenced& what) { ended += what.slot == &mine ? 1 : 0; });
  EXPECT_EQ(ended, 1U);
}

}  // namespace
}  // namespace opal::btl::tcp
