// SPDX-License-Identifier: Apache-2.0
// The out-of-band channel: its messages as bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/oob/wire.hpp"

namespace runtime::test {
namespace {

using oob::Assembler;
using oob::PieceHeader;
using oob::Topic;

std::string piece(std::uint64_t number, std::uint32_t total, std::uint32_t offset, const std::string& part,
                  std::uint16_t topic = 64) {
  const PieceHeader header{.topic = topic, .total = total, .offset = offset, .number = number};
  return std::string{oob::as_text(opal::bytes_of(header))} + part;
}

/// The completed message's content, "-" while there is none, "!" for a refused piece.
std::string add(Assembler& assembler, const std::string& bytes) {
  const auto message = assembler.add(oob::as_bytes(bytes));
  if (!message) return "!";
  return *message == nullptr ? "-" : std::string{oob::as_text((*message)->content)};
}

TEST(Assembler, PutsPiecesTogether) {
  Assembler assembler;
  EXPECT_EQ(add(assembler, piece(1, 3, 0, "abc")), "abc");
  EXPECT_EQ(add(assembler, piece(2, 0, 0, "")), "");
  EXPECT_EQ(add(assembler, piece(3, 6, 0, "ab")), "-");
  EXPECT_EQ(add(assembler, piece(3, 6, 2, "cd")), "-");
  EXPECT_EQ(add(assembler, piece(3, 6, 4, "ef")), "abcdef");
  EXPECT_EQ(assembler.next(), 4U);
}

TEST(Assembler, WhatComesAgainCountsOnce) {
  Assembler assembler;
  EXPECT_EQ(add(assembler, piece(1, 6, 0, "abc")), "-");
  EXPECT_EQ(add(assembler, piece(1, 6, 0, "ab")), "-") << "again, with other borders";
  EXPECT_EQ(add(assembler, piece(1, 6, 2, "cde")), "-") << "partly new";
  EXPECT_EQ(add(assembler, piece(1, 6, 0, "abcdef")), "abcdef");
  EXPECT_EQ(add(assembler, piece(1, 6, 0, "abcdef")), "-");
  EXPECT_EQ(add(assembler, piece(2, 0, 0, "")), "");
  EXPECT_EQ(add(assembler, piece(2, 0, 0, "")), "-");
  EXPECT_EQ(add(assembler, piece(3, 2, 0, "xy")), "xy");
}

TEST(Assembler, RefusesWhatIsNotAPieceOfAMessageAndGoesOn) {
  Assembler assembler;
  EXPECT_EQ(add(assembler, ""), "!");
  EXPECT_EQ(add(assembler, std::string(39, '\0')), "!");
  EXPECT_EQ(add(assembler, std::string(40, '\xff')), "!");
  EXPECT_EQ(add(assembler, piece(0, 2, 0, "ab")), "!") << "no number";
  EXPECT_EQ(add(assembler, piece(2, 2, 0, "ab")), "!") << "message 1 is missing";
  EXPECT_EQ(add(assembler, piece(1, 2, 0, "abc")), "!") << "more than its total";
  EXPECT_EQ(add(assembler, piece(1, 8, 9, "")), "!") << "offset after the end";
  EXPECT_EQ(add(assembler, piece(1, UINT32_MAX, 0, "a")), "!") << "larger than anything we take";
  EXPECT_EQ(add(assembler, piece(1, 8, UINT32_MAX - 1, "abcd")), "!") << "offset and size wrap around";
  EXPECT_EQ(add(assembler, piece(1, 8, 4, "abcd")), "!") << "a continuation of nothing";
  EXPECT_EQ(add(assembler, piece(1, 8, 0, "")), "!") << "would never end";
  EXPECT_EQ(add(assembler, piece(1, 4, 0, "ab", 64)), "-");
  EXPECT_EQ(add(assembler, piece(1, 4, 2, "cd", 65)), "!") << "another topic";
  EXPECT_EQ(add(assembler, piece(1, 5, 2, "cd", 64)), "!") << "another length";
  EXPECT_EQ(add(assembler, piece(1, 4, 3, "d", 64)), "!") << "a hole";
  EXPECT_EQ(add(assembler, piece(1, 4, 2, "cd", 64)), "abcd");
}

TEST(DaemonAddress, SurvivesItsSpellingAndOthersAreRefused) {
  const std::string bytes{"\0\x01\xfe\xff", 4};
  EXPECT_EQ(oob::to_hex(oob::as_bytes(bytes)), "0001feff");
  EXPECT_EQ(oob::from_hex("0001feff").value(), bytes);
  EXPECT_FALSE(oob::from_hex("0001f"));
  EXPECT_FALSE(oob::from_hex("0g"));
}

}  // namespace
}  // namespace runtime::test
