// SPDX-License-Identifier: Apache-2.0
// Cutting a stream into frames, however the network has cut it before.
#include "opal/btl/tcp/frame_reader.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

namespace opal::btl::tcp {
namespace {

constexpr std::size_t kMax = 1000;
using Bytes = std::vector<std::byte>;

Bytes frame(std::uint32_t size, std::uint16_t tag, std::uint16_t kind, std::size_t content) {
  const wire::Frame header{size, tag, kind};
  Bytes bytes(sizeof header + content);
  std::memcpy(bytes.data(), &header, sizeof header);
  for (std::size_t i = 0; i < content; ++i) bytes[sizeof header + i] = static_cast<std::byte>(i * 7 + tag);
  return bytes;
}

Bytes message(std::size_t size, std::uint16_t tag) {
  return frame(static_cast<std::uint32_t>(size), tag, 1, wire::frame_size(size) - sizeof(wire::Frame));
}

class Reading : public ::testing::Test {
 protected:
  /// Feeds `stream` in steps of what `step` says, and collects what comes out.
  template <class Step>
  FrameReader::Next feed(const Bytes& stream, Step step) {
    std::size_t place = 0;
    while (true) {
      const FrameReader::Next next = reader.next();
      if (next == FrameReader::Next::message) {
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(reader.payload().data()) % 8, 0U);
        messages.emplace_back(reader.tag(), Bytes(reader.payload().begin(), reader.payload().end()));
        continue;
      }
      if (next != FrameReader::Next::incomplete || place == stream.size()) return next;
      const MutableBytes room = reader.room();
      EXPECT_FALSE(room.empty());
      const std::size_t size = std::min({room.size(), step(), stream.size() - place});
      std::copy_n(stream.begin() + static_cast<std::ptrdiff_t>(place), size, room.begin());
      reader.received(size);
      place += size;
    }
  }

  alignas(8) std::array<std::byte, FrameReader::buffer_size(kMax)> buffer{};
  FrameReader reader{buffer, kMax};
  std::vector<std::pair<std::uint16_t, Bytes>> messages;
};

void expect_messages(const std::vector<std::pair<std::uint16_t, Bytes>>& messages,
                     const std::vector<std::size_t>& sizes) {
  ASSERT_EQ(messages.size(), sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto tag = static_cast<std::uint16_t>(i % 60'000 + 1);
    EXPECT_EQ(messages[i].first, tag);
    Bytes expected = message(sizes[i], tag);
    expected.erase(expected.begin(), expected.begin() + sizeof(wire::Frame));
    expected.resize(sizes[i]);
    ASSERT_EQ(messages[i].second, expected) << "message " << i;
  }
}

Bytes stream_of(const std::vector<std::size_t>& sizes) {
  Bytes stream;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const Bytes one = message(sizes[i], static_cast<std::uint16_t>(i % 60'000 + 1));
    stream.insert(stream.end(), one.begin(), one.end());
  }
  return stream;
}

TEST_F(Reading, MessagesArriveByteByByte) {
  const std::vector<std::size_t> sizes{0, 1, 7, 8, 9, 100, kMax, 0, kMax, 3};
  EXPECT_EQ(feed(stream_of(sizes), [] { return std::size_t{1}; }), FrameReader::Next::incomplete);
  expect_messages(messages, sizes);
}

TEST_F(Reading, MessagesArriveInAnyPieces) {
  std::mt19937 random{7};
  for (int round = 0; round < 50; ++round) {
    messages.clear();
    std::vector<std::size_t> sizes(200);
    for (std::size_t& size : sizes) size = random() % (round % 2 == 0 ? 30 : kMax + 1);
    EXPECT_EQ(feed(stream_of(sizes), [&] { return std::size_t{random() % 1500 + 1}; }), FrameReader::Next::incomplete);
    expect_messages(messages, sizes);
  }
}

TEST_F(Reading, AStreamOfTheLargestMessagesFillsAsMuchAsThereIsRoom) {
  const std::vector<std::size_t> sizes(100, kMax);
  EXPECT_EQ(feed(stream_of(sizes), [] { return std::size_t{1} << 20; }), FrameReader::Next::incomplete);
  expect_messages(messages, sizes);
}

TEST_F(Reading, AGoodbyeEndsTheStream) {
  Bytes stream = message(20, 1);
  const Bytes goodbye = frame(0, 0, 2, 0);
  stream.insert(stream.end(), goodbye.begin(), goodbye.end());
  EXPECT_EQ(feed(stream, [] { return std::size_t{3}; }), FrameReader::Next::goodbye);
  EXPECT_EQ(messages.size(), 1U);
}

TEST_F(Reading, FillersAreSkippedAtEveryPlaceAndInAnyPieces) {
  const Bytes filler = frame(wire::kFillerSize, 0, 3, wire::kFillerSize);
  ASSERT_EQ(filler.size(), 64U);
  for (const std::size_t step : {1U, 7U, 64U, 65U, 5000U}) {
    reader = FrameReader{buffer, kMax};
    messages.clear();
    Bytes stream;
    const std::vector<std::size_t> sizes{5, kMax, 0, kMax - 8, 17};
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      for (std::size_t k = 0; k < 10 * i; ++k) stream.insert(stream.end(), filler.begin(), filler.end());
      const Bytes one = message(sizes[i], static_cast<std::uint16_t>(i + 1));
      stream.insert(stream.end(), one.begin(), one.end());
    }
    stream.insert(stream.end(), filler.begin(), filler.end());
    EXPECT_EQ(feed(stream, [&] { return step; }), FrameReader::Next::incomplete);
    expect_messages(messages, sizes);
  }
}

TEST_F(Reading, AFillerFitsWhereTheLargestMessageIsShorter) {
  const Bytes filler = frame(wire::kFillerSize, 0, 3, wire::kFillerSize);
  for (const std::size_t most : {0U, 8U, 40U, 47U}) {
    messages.clear();
    reader = FrameReader{MutableBytes{buffer}.first(FrameReader::buffer_size(most)), most};
    Bytes stream = message(most, 1);
    stream.insert(stream.begin(), filler.begin(), filler.end());
    ASSERT_EQ(feed(stream, [] { return std::size_t{100}; }), FrameReader::Next::incomplete);
    expect_messages(messages, {most});
  }
}

TEST_F(Reading, WhatIsNoFrameIsBrokenBeforeItsContentIsWaitedFor) {
  const Bytes bad[] = {
      frame(kMax + 1, 5, 1, 0), frame(0xffffffff, 5, 1, 0), frame(8, 0, 1, 0),  frame(8, 0xffff, 1, 0),
      frame(8, 5, 0, 0),        frame(8, 5, 4, 0),          frame(1, 0, 2, 0),  frame(0, 5, 2, 0),
      frame(8, 5, 0xffff, 0),   frame(55, 0, 3, 0),         frame(57, 0, 3, 0), frame(56, 5, 3, 0),
  };
  for (const Bytes& bytes : bad) {
    reader = FrameReader{buffer, kMax};
    EXPECT_EQ(feed(bytes, [] { return std::size_t{1}; }), FrameReader::Next::broken);
    EXPECT_EQ(reader.error().code, Errc::protocol);
  }
  EXPECT_TRUE(messages.empty());
}

}  // namespace
}  // namespace opal::btl::tcp
