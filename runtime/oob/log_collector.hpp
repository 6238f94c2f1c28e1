// SPDX-License-Identifier: Apache-2.0
// runtime/oob/log_collector.hpp — lines of many ranks: the same line from several of them is shown once, with who said
// it.  A line waits a moment for its twins.  Threads: the loop's thread.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/event/loop.hpp"

namespace runtime::oob {

class LogCollector {
 public:
  static constexpr std::chrono::milliseconds kPatience{100};
  static constexpr std::size_t kMostLines = 1000;  ///< different ones that wait; then all are shown at once

  /// `show` gets complete lines; `ranks` is the size of the job.
  LogCollector(event::Loop& loop, unsigned ranks, std::function<void(const std::string&)> show);

  void add(unsigned rank, std::string_view line);

  /// Shows everything that waits.
  void flush();

 private:
  event::Loop& loop_;
  const unsigned ranks_;
  const std::function<void(const std::string&)> show_;
  std::vector<std::string> order_;                     // of arrival
  std::map<std::string, std::vector<unsigned>> said_;  // line -> ranks, sorted, without doubles
  event::Timer timer_;
};

/// "rank 3", "ranks 0-2,7", "all 4 ranks".  `said_by` is sorted.
std::string name_ranks(const std::vector<unsigned>& said_by, unsigned ranks);

}  // namespace runtime::oob
