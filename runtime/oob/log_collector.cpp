// SPDX-License-Identifier: Apache-2.0
#include "runtime/oob/log_collector.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace runtime::oob {

std::string name_ranks(const std::vector<unsigned>& said_by, unsigned ranks) {
  if (said_by.size() == 1) return fmt::format("rank {}", said_by.front());
  if (said_by.size() == ranks) return fmt::format("all {} ranks", ranks);
  std::string text = "ranks ";
  for (std::size_t i = 0; i < said_by.size();) {
    std::size_t last = i;
    while (last + 1 < said_by.size() && said_by[last + 1] == said_by[last] + 1) ++last;
    if (i > 0) text += ',';
    text += last == i ? fmt::format("{}", said_by[i]) : fmt::format("{}-{}", said_by[i], said_by[last]);
    i = last + 1;
  }
  return text;
}

LogCollector::LogCollector(event::Loop& loop, unsigned ranks, std::function<void(const std::string&)> show)
    : loop_(loop), ranks_(ranks), show_(std::move(show)) {}

void LogCollector::add(unsigned rank, std::string_view line) {
  auto [entry, is_new] = said_.try_emplace(std::string{line});
  if (is_new) order_.push_back(entry->first);
  std::vector<unsigned>& by = entry->second;
  const auto place = std::lower_bound(by.begin(), by.end(), rank);
  if (place == by.end() || *place != rank) by.insert(place, rank);
  if (order_.size() >= kMostLines) return flush();
  if (!timer_) timer_ = loop_.after(kPatience, [this] { flush(); });
}

void LogCollector::flush() {
  timer_ = {};
  for (const std::string& line : order_) show_(fmt::format("[{}] {}", name_ranks(said_.at(line), ranks_), line));
  order_.clear();
  said_.clear();
}

}  // namespace runtime::oob
