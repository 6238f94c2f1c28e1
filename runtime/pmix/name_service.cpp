// SPDX-License-Identifier: Apache-2.0
#include "runtime/pmix/name_service.hpp"

#include <pmix_common.h>

#include <algorithm>

namespace runtime::pmix {

void NameService::serve(const NameRequest& request, const Cluster::Items& answer) {
  switch (request.kind) {
    case NameRequest::Kind::publish: return answer(publish(request.items), {});
    case NameRequest::Kind::lookup: return lookup(request, answer);
    case NameRequest::Kind::unpublish:
      std::erase_if(published_, [&](const auto& entry) {
        const auto& [name, item] = entry;
        const bool named = request.names.empty() || std::ranges::find(request.names, name) != request.names.end();
        return named && item.owner == request.owner;
      });
      return answer(PMIX_SUCCESS, {});
  }
}

int NameService::publish(const std::vector<PackedItem>& items) {
  for (const PackedItem& item : items) {
    if (published_.contains(item.name)) return PMIX_ERR_DUPLICATE_KEY;
  }
  for (const PackedItem& item : items) published_.emplace(item.name, item);
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    const std::vector<PackedItem> found = find(next->names);
    if (found.size() < next->names.size()) {
      ++next;
      continue;
    }
    const Cluster::Items answer = std::move(next->answer);
    next = waiting_.erase(next);
    reply(answer, PMIX_SUCCESS, found);
  }
  return PMIX_SUCCESS;
}

void NameService::lookup(const NameRequest& request, const Cluster::Items& answer) {
  const std::vector<PackedItem> found = find(request.names);
  if (found.size() == request.names.size()) return reply(answer, PMIX_SUCCESS, found);
  if (!request.wait) return reply(answer, found.empty() ? PMIX_ERR_NOT_FOUND : PMIX_ERR_PARTIAL_SUCCESS, found);
  const auto place = waiting_.insert(waiting_.end(), {request.owner, request.names, answer, {}});
  if (request.timeout_s == 0) return;
  place->timer = loop_.after(std::chrono::seconds{request.timeout_s}, [this, place] {
    const Cluster::Items late = std::move(place->answer);
    waiting_.erase(place);
    late(PMIX_ERR_TIMEOUT, {});
  });
}

void NameService::end(std::uint32_t owner) {
  std::erase_if(published_, [&](const auto& entry) {
    return entry.second.persistence == PMIX_PERSIST_PROC && entry.second.owner == owner;
  });
  std::list<Waiting> ended;
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    const auto place = next++;
    if (place->owner == owner) ended.splice(ended.end(), waiting_, place);
  }
  for (const Waiting& one : ended) one.answer(PMIX_ERR_PROC_TERM_WO_SYNC, {});
}

std::vector<PackedItem> NameService::find(const std::vector<std::string>& names) const {
  std::vector<PackedItem> found;
  for (const std::string& name : names) {
    if (const auto entry = published_.find(name); entry != published_.end()) found.push_back(entry->second);
  }
  return found;
}

void NameService::reply(const Cluster::Items& answer, int status, const std::vector<PackedItem>& found) {
  for (const PackedItem& item : found) {
    if (item.persistence == PMIX_PERSIST_FIRST_READ) published_.erase(item.name);
  }
  answer(status, found);
}

}  // namespace runtime::pmix
