// SPDX-License-Identifier: Apache-2.0
// runtime/pmix/cluster.hpp — what a PMIx server needs of the servers on the job's other hosts.  Statuses are libpmix's.
// Threads: the loop's thread, also for the answers, each of which comes exactly once unless the process ends before.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/core_names.hpp"

namespace runtime::pmix {

/// A published name; `value` is a pmix_value_t in libpmix's packing.
struct PackedItem {
  std::string name;
  std::uint32_t owner = 0;  ///< rank
  std::string value;
  std::uint8_t persistence = 0;  ///< pmix_persistence_t
};

/// What a rank wants of the job's names.
struct NameRequest {
  enum class Kind : std::uint8_t { publish, lookup, unpublish };
  Kind kind{};
  std::uint32_t owner = 0;              ///< the rank
  std::vector<PackedItem> items = {};   ///< to publish
  std::vector<std::string> names = {};  ///< to look up, or to unpublish: none are all of the owner's
  bool wait = false;                    ///< a lookup waits until all names are there, for at most
  std::uint64_t timeout_s = 0;          ///< 0: for ever
};

/// An event, its infos' values in libpmix's packing.
struct PackedEvent {
  int status = 0;
  std::uint32_t source = 0;  ///< rank
  std::uint8_t range = 0;
  std::vector<std::pair<std::string, std::string>> infos;
};

/// A fence of ranks of several hosts: the same, packed, on every host.
struct FenceName {
  std::vector<std::uint32_t> ranks;  ///< ascending; PMIX_RANK_WILDCARD is all of them
  std::string what;                  ///< "fence", "connect", ...
};

class Cluster {
 public:
  using Data = std::function<void(int status, const std::string& data)>;
  using Items = std::function<void(int status, const std::vector<PackedItem>& items)>;

  virtual ~Cluster() = default;

  /// All members on this host have arrived, with `data`, at the fence of that name (FenceName, packed), in which
  /// `hosts` take part.  Answered with the data of all of them; a status that is no success, of any host, is for all.
  virtual void fence(const std::string& name, const std::vector<std::uint32_t>& hosts, int status,
                     const std::string& data, Data answer) = 0;

  /// Tells the clients of all other hosts of an event that one of ours has raised.
  virtual Result<void> notify(const PackedEvent& event) = 0;

  /// What `rank`, of another host, has committed.
  virtual void modex(unsigned rank, Data answer) = 0;

  /// Answered with the items that a lookup found.
  virtual void names(const NameRequest& request, Items answer) = 0;
};

}  // namespace runtime::pmix
