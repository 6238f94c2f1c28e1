// SPDX-License-Identifier: Apache-2.0
// tests/runtime/flood.hpp — much output of ranks (flood_rank.cpp), checked line by line as it comes: every line of
// every rank, whole, once and in order, without keeping any.
#pragma once
#include <cstdint>
#include <string>

#include "opal/core/sanitizer.hpp"
#include "tests/runtime/launched_job.hpp"

namespace runtime::test {

inline constexpr std::size_t kFloodWidth = 100;  ///< bytes of a line, with its newline

/// Half a gigabyte; programs under a sanitizer take as long for a tenth.
inline constexpr std::uint64_t kFloodLines = OPAL_ADDRESS_SANITIZER ? 500'000 : 5'000'000;

inline std::string flood_line(unsigned rank, std::uint64_t number) {
  std::string line = "rank " + std::to_string(rank) + " line " + std::to_string(number) + " ";
  line.resize(kFloodWidth - 1, static_cast<char>('a' + number % 26));
  line += '\n';
  return line;
}

/// Reads the output of a job of `ranks` ranks `flood_rank lines` to its end: nothing is missing, cut or out of order,
/// and no process that passed it on has taken more than `most_kib` for it.  A reader that rests after each read is
/// slow.  Prints the rate.
void expect_flood(LaunchedJob& job, unsigned ranks, std::uint64_t lines, long most_kib,
                  std::chrono::milliseconds rest = {});

}  // namespace runtime::test
