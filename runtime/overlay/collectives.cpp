// SPDX-License-Identifier: Apache-2.0
#include "runtime/overlay/collectives.hpp"

#include <algorithm>

namespace runtime::overlay {

Collectives::Operation* Collectives::add(const Contribution& contribution) {
  const auto ended = ended_.find(contribution.name.key);
  if (ended != ended_.end() && contribution.name.sequence <= ended->second) return nullptr;
  const auto [entry, is_new] = operations_.try_emplace(contribution.name);
  Operation& operation = entry->second;
  if (is_new) operation.participants = contribution.participants;
  IdSet fresh = contribution.covered;
  fresh.remove(operation.covered);
  if (fresh.empty()) return nullptr;
  operation.covered.add(fresh);
  if (operation.status == 0) operation.status = contribution.status;
  for (const auto& [member, data] : contribution.parts) {
    // Packed, a part also has its member and its length, 8 bytes each.
    if (operation.parts.emplace(member, data).second) operation.bytes += data.size() + 2 * sizeof(std::uint64_t);
  }
  // The sets of a Release: its receivers, with the ranges of `participants`; `lost`, at most with those of both sets.
  const std::size_t ranges = 2 * operation.participants.ranges().size() + operation.covered.ranges().size();
  const std::size_t bytes = operation.bytes + contribution.name.key.size() + ranges * 2 * sizeof(std::uint64_t);
  operation.too_large |= contribution.too_large || bytes > kLargestContent;
  if (operation.too_large) operation.parts.clear();
  return &operation;
}

Collectives::Operation* Collectives::find(const OperationName& name) {
  const auto entry = operations_.find(name);
  return entry == operations_.end() ? nullptr : &entry->second;
}

void Collectives::end(const OperationName& name) {
  std::uint64_t& last = ended_[name.key];
  last = std::max(last, name.sequence);
  operations_.erase(name);
}

bool Collectives::is_next(const OperationName& name) const {
  const auto last = ended_.find(name.key);
  return name.sequence == (last == ended_.end() ? 0 : last->second) + 1;
}

bool Collectives::complete(const Operation& operation, const IdSet& responsibility, const IdSet& lost_or_absent) {
  return std::ranges::all_of(responsibility.ranges(), [&](const Range& range) {
    IdSet missing = operation.participants.within(range);  // first: a set of few ranges
    missing.remove(operation.covered);
    missing.remove(lost_or_absent);
    return missing.empty();
  });
}

Contribution Collectives::to_contribution(const OperationName& name, Operation& operation) {
  operation.sent = operation.covered;
  return {.name = name,
          .participants = operation.participants,
          .covered = operation.covered,
          .status = operation.status,
          .too_large = operation.too_large,
          .parts = {operation.parts.begin(), operation.parts.end()}};
}

void Collectives::reset_sent() {
  for (auto& [name, operation] : operations_) operation.sent = {};
}

std::vector<OperationName> Collectives::names() const {
  std::vector<OperationName> names;
  names.reserve(operations_.size());
  for (const auto& [name, operation] : operations_) names.push_back(name);
  return names;
}

}  // namespace runtime::overlay
