// SPDX-License-Identifier: Apache-2.0
// runtime/pmix/name_service.hpp — what clients published, and the lookups that still wait for a name.
// Threads: the loop's thread.
#pragma once
#include <list>
#include <map>

#include "runtime/event/loop.hpp"
#include "runtime/pmix/cluster.hpp"

namespace runtime::pmix {

class NameService {
 public:
  explicit NameService(event::Loop& loop) noexcept : loop_(loop) {}

  /// Answers at once, or a lookup that waits when all names are there.  Statuses: of a publication PMIX_SUCCESS, or
  /// PMIX_ERR_DUPLICATE_KEY when one of its names is taken: then none is; of a lookup PMIX_SUCCESS,
  /// PMIX_ERR_PARTIAL_SUCCESS, PMIX_ERR_NOT_FOUND, PMIX_ERR_TIMEOUT.
  void serve(const NameRequest& request, const Cluster::Items& answer);
  /// That rank has ended, and with it its names of PMIX_PERSIST_PROC.
  void end(std::uint32_t owner);

 private:
  struct Waiting {
    std::vector<std::string> names;
    Cluster::Items answer;
    event::Timer timer;
  };

  int publish(const std::vector<PackedItem>& items);
  void lookup(const NameRequest& request, const Cluster::Items& answer);
  [[nodiscard]] std::vector<PackedItem> find(const std::vector<std::string>& names) const;
  void reply(const Cluster::Items& answer, int status, const std::vector<PackedItem>& found);

  event::Loop& loop_;
  std::map<std::string, PackedItem> published_;  // no name outlives the job
  std::list<Waiting> waiting_;
};

}  // namespace runtime::pmix
