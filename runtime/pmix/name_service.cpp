// SPDX-License-Identifier: Apache-2.0
#include "runtime/pmix/name_service.hpp"

#include <algorithm>
#include <cstring>

namespace runtime::pmix {
namespace {

bool same(const pmix_proc_t& a, const pmix_proc_t& b) {
  return a.rank == b.rank && std::strncmp(a.nspace, b.nspace, PMIX_MAX_NSLEN) == 0;
}

}  // namespace

pmix_status_t NameService::publish(const std::vector<Published>& items) {
  for (const Published& item : items) {
    if (published_.contains(item.name)) return PMIX_ERR_DUPLICATE_KEY;
  }
  for (const Published& item : items) published_.emplace(item.name, item);
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    const std::vector<Published> found = find(next->names);
    if (found.size() < next->names.size()) {
      ++next;
      continue;
    }
    const LookupAnswer answer = std::move(next->answer);
    next = waiting_.erase(next);
    reply(answer, PMIX_SUCCESS, found);
  }
  return PMIX_SUCCESS;
}

void NameService::lookup(std::vector<std::string> names, bool wait, std::chrono::seconds timeout, LookupAnswer answer) {
  const std::vector<Published> found = find(names);
  if (found.size() == names.size()) return reply(answer, PMIX_SUCCESS, found);
  if (!wait) return reply(answer, found.empty() ? PMIX_ERR_NOT_FOUND : PMIX_ERR_PARTIAL_SUCCESS, found);
  waiting_.push_back({std::move(names), std::move(answer), {}});
  if (timeout.count() <= 0) return;
  const auto place = std::prev(waiting_.end());
  place->timer = loop_.after(timeout, [this, place] {
    const LookupAnswer late = std::move(place->answer);
    waiting_.erase(place);
    late(PMIX_ERR_TIMEOUT, {});
  });
}

void NameService::unpublish(const pmix_proc_t& owner, const std::vector<std::string>& names) {
  std::erase_if(published_, [&](const auto& entry) {
    const bool named = names.empty() || std::find(names.begin(), names.end(), entry.first) != names.end();
    return named && same(entry.second.owner, owner);
  });
}

void NameService::end(const pmix_proc_t& owner) {
  std::erase_if(published_, [&](const auto& entry) {
    return entry.second.persistence == PMIX_PERSIST_PROC && same(entry.second.owner, owner);
  });
}

std::vector<Published> NameService::find(const std::vector<std::string>& names) const {
  std::vector<Published> found;
  for (const std::string& name : names) {
    if (const auto entry = published_.find(name); entry != published_.end()) found.push_back(entry->second);
  }
  return found;
}

void NameService::reply(const LookupAnswer& answer, pmix_status_t status, const std::vector<Published>& found) {
  for (const Published& item : found) {
    if (item.persistence == PMIX_PERSIST_FIRST_READ) published_.erase(item.name);
  }
  answer(status, found);
}

}  // namespace runtime::pmix
