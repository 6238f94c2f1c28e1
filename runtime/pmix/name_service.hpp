// SPDX-License-Identifier: Apache-2.0
// runtime/pmix/name_service.hpp — the names that the ranks have published, and the lookups that wait for a name.
// One object per job, in the launcher.  Threads: the loop's thread.
#pragma once
#include <list>
#include <map>

#include "runtime/event/loop.hpp"
#include "runtime/pmix/cluster.hpp"

namespace runtime::pmix {

class NameService {
 public:
  explicit NameService(event::Loop& loop) noexcept : loop_(loop) {}

  /// Serves a request.  `answer` runs within the call; for a lookup that waits, when all names are published, its
  /// timeout is over, or its rank has ended.  Statuses:
  ///  - publish: PMIX_SUCCESS; PMIX_ERR_DUPLICATE_KEY (a name is taken; nothing is published);
  ///  - lookup: PMIX_SUCCESS, PMIX_ERR_PARTIAL_SUCCESS, PMIX_ERR_NOT_FOUND, PMIX_ERR_TIMEOUT,
  ///    PMIX_ERR_PROC_TERM_WO_SYNC (its rank has ended);
  ///  - unpublish: PMIX_SUCCESS.
  void serve(const NameRequest& request, const Cluster::Items& answer);
  /// The rank `owner` has ended: removes its names with PMIX_PERSIST_PROC, and ends its lookups that wait.
  void end(std::uint32_t owner);

 private:
  struct Waiting {
    std::uint32_t owner;  // the rank that waits
    std::vector<std::string> names;
    Cluster::Items answer;
    event::Timer timer;
  };

  int publish(const std::vector<PackedItem>& items);
  void lookup(const NameRequest& request, const Cluster::Items& answer);
  [[nodiscard]] std::vector<PackedItem> find(const std::vector<std::string>& names) const;
  void reply(const Cluster::Items& answer, int status, const std::vector<PackedItem>& found);

  event::Loop& loop_;
  std::map<std::string, PackedItem> published_;  // by name
  std::list<Waiting> waiting_;
};

}  // namespace runtime::pmix
