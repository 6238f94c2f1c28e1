// SPDX-License-Identifier: Apache-2.0
// The fast box's two sides over one buffer: content, borders, wrap-around, garbage, two threads.
#include "opal/btl/sm/messages/memory/fast_box.hpp"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <thread>
#include <vector>

namespace opal::btl::sm {
namespace {

constexpr Tag kTag = 0x8001;

/// Both sides over one aligned buffer, so that ThreadSanitizer sees every race.
struct Pair {
  explicit Pair(std::size_t size = 1024, std::uint32_t counters_from = 0)
      : lines(size / kCacheLine), released(counters_from) {
    const MutableBytes ring{reinterpret_cast<std::byte*>(lines.data()), size};
    writer = BoxWriter{ring, released};
    reader = BoxReader{ring, released};
  }
  struct alignas(kCacheLine) Line {
    std::array<std::byte, kCacheLine> bytes{};
  };
  [[nodiscard]] std::uint64_t& word(std::size_t line) { return reinterpret_cast<std::uint64_t&>(lines[line]); }

  std::vector<Line> lines;
  std::atomic<std::uint32_t> released;
  BoxWriter writer;
  BoxReader reader;
};

std::vector<std::byte> bytes(std::size_t size, unsigned seed) {
  std::vector<std::byte> result(size);
  for (std::size_t i = 0; i < size; ++i) result[i] = static_cast<std::byte>(seed * 31 + i * 7 + 1);
  return result;
}

std::optional<BoxRecord> look(BoxReader& reader) {
  BoxRecord record{};
  if (reader.look(record) != BoxReader::Look::record) return std::nullopt;
  return record;
}

bool equal(ByteSpan a, ByteSpan b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

TEST(FastBox, IsOffUntilItHasARing) {
  BoxWriter writer;
  EXPECT_FALSE(writer.on());
  EXPECT_FALSE(writer.push(kTag, 0, {}, {}));
}

TEST(FastBox, ARecordArrivesWithTagSequenceHeaderAndPayload) {
  Pair box;
  EXPECT_FALSE(box.reader.ready());
  ASSERT_TRUE(box.writer.push(kTag, 77, bytes(5, 1), bytes(30, 2)));
  EXPECT_TRUE(box.reader.ready());
  const auto record = look(box.reader);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->tag, kTag);
  EXPECT_EQ(record->seq, 77);
  ASSERT_EQ(record->data.size(), 35U);
  EXPECT_TRUE(equal(record->data.first(5), bytes(5, 1)));
  EXPECT_TRUE(equal(record->data.subspan(5), bytes(30, 2)));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(record->data.data()) % 8, 0U);
  box.reader.pop(*record);
  EXPECT_FALSE(box.reader.ready());
}

TEST(FastBox, TakesUpToAQuarterOfTheRing) {
  Pair box{4096};
  const std::size_t most = 4096 / 4 - sizeof(wire::RecordHeader);
  EXPECT_TRUE(box.writer.push(kTag, 0, {}, bytes(most, 1)));
  EXPECT_FALSE(box.writer.push(kTag, 1, {}, bytes(most + 1, 1)));
  EXPECT_FALSE(box.writer.push(kTag, 1, bytes(1, 1), bytes(most, 1)));
}

TEST(FastBox, AMessageOfUpTo56BytesTakesOneLine) {
  Pair box;
  for (int i = 0; i < 16; ++i) ASSERT_TRUE(box.writer.push(kTag, 0, {}, bytes(56, 1))) << i;
  EXPECT_FALSE(box.writer.push(kTag, 0, {}, {})) << "16 lines are full";
}

TEST(FastBox, OneThatRestsTakesNothingUntilItIsResumed) {
  Pair box;
  box.writer.rest();
  EXPECT_TRUE(box.writer.on());
  EXPECT_FALSE(box.writer.push(kTag, 0, {}, {}));
  EXPECT_FALSE(box.writer.full_for(0));
  box.writer.resume();
  for (int i = 0; i < 16; ++i) ASSERT_TRUE(box.writer.push(kTag, 0, {}, {}));
  EXPECT_TRUE(box.writer.full_for(0));
  box.writer.turn_off();
  box.writer.resume();
  EXPECT_FALSE(box.writer.on());
  EXPECT_FALSE(box.writer.full_for(0));
}

TEST(FastBox, OnlyHeadersAreWipedByTheReaderAndALongMessageCostsItNoWrite) {
  Pair box;
  for (std::uint16_t i = 0; i < 3; ++i) ASSERT_TRUE(box.writer.push(kTag, i, {}, bytes(200, 1)));
  while (const auto record = look(box.reader)) box.reader.pop(*record);
  box.reader.finish();
  for (std::size_t line = 0; line < 12; ++line) EXPECT_EQ(box.word(line) == 0, line % 4 == 0) << line;
}

TEST(FastBox, AFullRingRefusesAndTakesAgainWhenAQuarterHasBeenRead) {
  Pair box;
  for (std::uint16_t i = 0; i < 16; ++i) ASSERT_TRUE(box.writer.push(kTag, i, {}, bytes(8, i)));
  for (std::uint16_t i = 0; i < 4; ++i) {
    EXPECT_FALSE(box.writer.push(kTag, 16, {}, {}));
    const auto record = look(box.reader);
    ASSERT_TRUE(record);
    EXPECT_EQ(record->seq, i);
    box.reader.pop(*record);
  }
  for (std::uint16_t i = 16; i < 20; ++i) EXPECT_TRUE(box.writer.push(kTag, i, {}, bytes(8, i)));
  EXPECT_FALSE(box.writer.push(kTag, 20, {}, {}));
}

TEST(FastBox, ARecordThatDoesNotFitAtTheEndGoesToTheStart) {
  Pair box;
  const std::size_t sizes[] = {200, 200, 200, 200, 120};  // 4, 4, 4, 4 lines of 16, then 3
  std::uint16_t written = 0;
  std::uint16_t read = 0;
  for (int round = 0; round < 200; ++round) {
    const std::size_t size = sizes[written % 5];
    if (box.writer.push(kTag, written, {}, bytes(size, written))) {
      ++written;
      continue;
    }
    const auto record = look(box.reader);
    ASSERT_TRUE(record) << round;
    EXPECT_EQ(record->seq, read);
    EXPECT_TRUE(equal(record->data, bytes(sizes[read % 5], read)));
    box.reader.pop(*record);
    ++read;
  }
  EXPECT_GT(read, 50);
}

TEST(FastBox, StaleBytesAreNeverTakenForARecord) {
  // Payloads that look like headers everywhere, records whose borders fall elsewhere in each lap.
  Pair box;
  const auto evil = std::bit_cast<std::uint64_t>(wire::RecordHeader{40, kTag, 0xbeef});
  std::uint16_t written = 0;
  std::uint16_t read = 0;
  for (int step = 0; step < 5000; ++step) {
    std::vector<std::uint64_t> payload((step * 7) % 30, evil);
    while (box.writer.push(kTag, written, {}, std::as_bytes(std::span{payload}))) {
      ++written;
      payload.resize((step * 11 + written) % 30, evil);
    }
    while (const auto record = look(box.reader)) {
      ASSERT_EQ(record->seq, read++);
      box.reader.pop(*record);
    }
    ASSERT_EQ(read, written) << "everything written has been read, and nothing else";
  }
}

TEST(FastBox, TheCountersWrapAround) {
  Pair box{1024, 0xffffff00U - 0xffffff00U % 64};
  for (std::uint32_t i = 0; i < 1000; ++i) {
    const std::size_t size = i % 248;
    ASSERT_TRUE(box.writer.push(kTag, static_cast<std::uint16_t>(i), {}, bytes(size, i))) << i;
    const auto record = look(box.reader);
    ASSERT_TRUE(record);
    ASSERT_TRUE(equal(record->data, bytes(size, i)));
    box.reader.pop(*record);
  }
  EXPECT_LT(box.released.load(), 0x80000000U) << "it did wrap";
}

TEST(FastBox, AWriterThatDiesBeforePublishingLeavesNothing) {
  Pair box;
  ASSERT_TRUE(box.writer.push(kTag, 0, {}, bytes(10, 1)));
  // Killed while it copied the second message: bytes after the header's place, no header.
  std::fill(box.lines[1].bytes.begin() + 8, box.lines[1].bytes.end(), std::byte{0xff});
  std::fill(box.lines[2].bytes.begin() + 8, box.lines[2].bytes.end(), std::byte{0xff});
  const auto record = look(box.reader);
  ASSERT_TRUE(record);
  box.reader.pop(*record);
  EXPECT_FALSE(look(box.reader));
  EXPECT_FALSE(box.reader.ready());
}

TEST(FastBox, GarbageInARecordIsFoundAndNeverReadBeyondTheRing) {
  const wire::RecordHeader bad[] = {
      {0, 0, 1},                             // no tag, but not nothing
      {1024, kTag, 0},                       // as long as the ring
      {249, kTag, 0},                        // longer than a quarter
      {0xffffffffU, kTag, 0},                // absurd
      {0xfffffff8U, kTag, 0},                // wraps when the header is added
      {0, wire::kSkipTag, 0},                // skips all of the ring
      {0xffffffffU, wire::kSkipTag, 0xffff}  // the same in full
  };
  for (const wire::RecordHeader& header : bad) {
    Pair box;
    box.word(0) = std::bit_cast<std::uint64_t>(header);
    BoxRecord record{};
    EXPECT_EQ(box.reader.look(record), BoxReader::Look::garbage) << header.size << " " << header.tag;
  }
  Pair box;  // at the last line: a record may not run over the end
  for (std::uint16_t i = 0; i < 15; ++i) {
    ASSERT_TRUE(box.writer.push(kTag, i, {}, {}));
    box.reader.pop(*look(box.reader));
  }
  box.word(15) = std::bit_cast<std::uint64_t>(wire::RecordHeader{57, kTag, 0});
  BoxRecord record{};
  EXPECT_EQ(box.reader.look(record), BoxReader::Look::garbage);
}

TEST(FastBox, AReaderThatGivesBackWhatItNeverGotTurnsTheBoxOff) {
  for (const std::uint32_t nonsense : {1U, 64U, 1024U, 0x80000000U, 0xffffffffU}) {
    Pair box;
    box.released.store(nonsense);
    bool accepted = true;
    for (int i = 0; i < 40 && accepted; ++i) accepted = box.writer.push(kTag, 0, {}, bytes(8, 1));
    EXPECT_FALSE(accepted);
    EXPECT_TRUE(box.writer.broken()) << nonsense;
    EXPECT_FALSE(box.writer.on());
  }
}

TEST(FastBox, TwoThreadsAgreeOnEveryByte) {
  constexpr std::uint32_t kCount = 60'000;
  Pair box{2048};
  std::thread writer{[&] {
    for (std::uint32_t i = 0; i < kCount; ++i) {
      const auto payload = bytes(i % 450, i);
      while (!box.writer.push(kTag, static_cast<std::uint16_t>(i), bytes_of(i), payload)) std::this_thread::yield();
    }
  }};
  for (std::uint32_t i = 0; i < kCount; ++i) {
    std::optional<BoxRecord> record;
    while (!(record = look(box.reader))) std::this_thread::yield();
    std::uint32_t number = 0;
    ASSERT_TRUE(read_object(record->data, number));
    ASSERT_EQ(number, i);
    ASSERT_EQ(record->seq, static_cast<std::uint16_t>(i));
    ASSERT_TRUE(equal(record->data.subspan(4), bytes(i % 450, i)));
    box.reader.pop(*record);
  }
  writer.join();
}

}  // namespace
}  // namespace opal::btl::sm
