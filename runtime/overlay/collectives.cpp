// SPDX-License-Identifier: Apache-2.0
#include "runtime/overlay/collectives.hpp"

#include <algorithm>

namespace runtime::overlay {

Collectives::Operation* Collectives::add(const Contribution& contribution) {
  const auto ended = ended_.find(contribution.name.key);
  if (ended != ended_.end() && contribution.name.use <= ended->second) return nullptr;
  const auto [entry, is_new] = operations_.try_emplace(contribution.name);
  Operation& operation = entry->second;
  if (is_new) {
    operation.participants = contribution.participants;
    operation.to_root_only = contribution.to_root_only != 0;
  }
  IdSet fresh = contribution.covered;
  fresh.remove(operation.covered);
  if (fresh.empty()) return nullptr;
  operation.covered.add(fresh);
  if (operation.status == 0) operation.status = contribution.status;
  for (const auto& [member, data] : contribution.parts) {
    if (operation.parts.emplace(member, data).second) operation.bytes += data.size() + 2 * sizeof(std::uint64_t);
  }
  operation.too_large |= contribution.too_large != 0 || operation.bytes > kLargestContent;
  if (operation.too_large) operation.parts.clear();
  return &operation;
}

Collectives::Operation* Collectives::find(const OperationName& name) {
  const auto entry = operations_.find(name);
  return entry == operations_.end() ? nullptr : &entry->second;
}

void Collectives::end(const OperationName& name) {
  std::uint64_t& last = ended_[name.key];
  last = std::max(last, name.use);
  operations_.erase(name);
}

bool Collectives::is_next(const OperationName& name) const {
  const auto last = ended_.find(name.key);
  return name.use == (last == ended_.end() ? 0 : last->second) + 1;
}

bool Collectives::complete(const Operation& operation, const IdSet& mine, const IdSet& lost) {
  for (const Range& range : mine.ranges()) {
    IdSet missing = operation.participants.within(range);
    missing.remove(operation.covered);
    missing.remove(lost);
    if (!missing.empty()) return false;
  }
  return true;
}

Contribution Collectives::tell(const OperationName& name, Operation& operation) {
  operation.told = operation.covered;
  return {name,
          operation.participants,
          operation.covered,
          operation.status,
          static_cast<std::uint8_t>(operation.to_root_only),
          static_cast<std::uint8_t>(operation.too_large),
          {operation.parts.begin(), operation.parts.end()}};
}

void Collectives::forget_told() {
  for (auto& [name, operation] : operations_) operation.told = {};
}

std::vector<OperationName> Collectives::names() const {
  std::vector<OperationName> names;
  names.reserve(operations_.size());
  for (const auto& [name, operation] : operations_) names.push_back(name);
  return names;
}

}  // namespace runtime::overlay
