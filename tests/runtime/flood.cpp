// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/flood.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <thread>

namespace runtime::test {
namespace {

class FloodCheck {
 public:
  explicit FloodCheck(unsigned ranks) : next_(ranks) {}

  void add(std::string_view text) {
    bytes_ += text.size();
    while (!text.empty() && wrong_.empty()) {
      const std::size_t size = std::min(kFloodWidth - held_.size(), text.size());
      held_ += text.substr(0, size);
      text.remove_prefix(size);
      if (held_.size() < kFloodWidth) return;
      take(held_);
      held_.clear();
    }
  }

  /// The first line that is not what must come; "" when there is none.
  [[nodiscard]] const std::string& wrong() const { return wrong_.empty() ? held_ : wrong_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  /// How many lines of each rank have come.
  [[nodiscard]] const std::vector<std::uint64_t>& lines() const noexcept { return next_; }

 private:
  void take(const std::string& line) {
    constexpr std::size_t kBegin = std::string_view{"rank "}.size();
    unsigned rank = 0;
    const auto parsed = std::from_chars(line.data() + kBegin, line.data() + line.size(), rank);
    if (parsed.ec != std::errc{} || rank >= next_.size() || line != flood_line(rank, next_[rank])) {
      wrong_ = line;
    } else {
      ++next_[rank];
    }
  }

  std::vector<std::uint64_t> next_;
  std::string held_;
  std::string wrong_;
  std::uint64_t bytes_ = 0;
};

}  // namespace

void expect_flood(LaunchedJob& job, unsigned ranks, std::uint64_t lines, long most_kib,
                  std::chrono::milliseconds rest) {
  FloodCheck check{ranks};
  job.consume([&](std::string_view text) {
    check.add(text);
    std::this_thread::sleep_for(rest);
  });
  const auto begin = std::chrono::steady_clock::now();
  const Outcome outcome = job.wait();
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(check.wrong(), "");
  EXPECT_EQ(check.bytes(), ranks * lines * kFloodWidth);
  EXPECT_EQ(check.lines(), std::vector<std::uint64_t>(ranks, lines));
  std::map<unsigned, std::vector<long>> kib;  // of what each rank's server has used, before and after
  for (const std::string& line : lines_of(outcome.err)) {
    unsigned rank = 0;
    long used = 0;
    ASSERT_EQ(std::sscanf(line.c_str(), "rank %u %ld", &rank, &used), 2) << line;
    kib[rank].push_back(used);
  }
  ASSERT_EQ(kib.size(), ranks) << outcome.err;
  std::string memory;
  for (const auto& [rank, used] : kib) {
    ASSERT_EQ(used.size(), 2U) << outcome.err;
    EXPECT_LT(used[1] - used[0], most_kib) << "KiB, of what passes the output of rank " << rank << " on";
    memory += fmt::format(", {} -> {} KiB", used[0], used[1]);
  }
  fmt::print("{} MB in {:.1f} s, {:.0f} MB/s{}\n", check.bytes() / 1'000'000, time.count(),
             static_cast<double>(check.bytes()) / time.count() / 1e6, memory);
}

}  // namespace runtime::test
