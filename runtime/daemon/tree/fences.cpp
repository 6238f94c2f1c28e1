// SPDX-License-Identifier: Apache-2.0
#include "runtime/daemon/tree/fences.hpp"

#include <pmix_common.h>

namespace runtime::daemon {

void Fences::arrive(const std::string& name, const std::vector<std::uint32_t>& hosts, int status,
                    const std::string& data, pmix::Cluster::Data answer) {
  overlay::IdSet participants;
  for (const std::uint32_t host : hosts) participants.add(host);
  waiting_[name].push_back(std::move(answer));
  tree_.arrive(name, participants, status, data);
}

void Fences::on_release(const overlay::Release& release) {
  const auto entry = waiting_.find(release.name.key);
  if (entry == waiting_.end()) return;
  const pmix::Cluster::Data answer = std::move(entry->second.front());
  entry->second.pop_front();
  if (entry->second.empty()) waiting_.erase(entry);
  int status = static_cast<int>(release.status);
  if (status == PMIX_SUCCESS && !release.lost.empty()) status = PMIX_ERR_PROC_TERM_WO_SYNC;
  // More data than the tree carries is left out; a process that wants some of it asks its owner.
  std::string data;
  for (const auto& [host, part] : release.parts) data += part;
  answer(status, data);
}

}  // namespace runtime::daemon
