// SPDX-License-Identifier: Apache-2.0
// runtime/pmix/cluster.hpp — the interface of a PMIx server to the servers on the job's other hosts.  Statuses are
// those of libpmix.  Each answer callback runs exactly once, unless the process ends before.  Threads: the loop's
// thread.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/core_names.hpp"

namespace runtime::pmix {

/// A published name.
struct PackedItem {
  std::string name;
  std::uint32_t owner = 0;       ///< rank
  std::string value;             ///< a pmix_value_t in libpmix's packing
  std::uint8_t persistence = 0;  ///< pmix_persistence_t
};

/// A rank's request to the job's name service.
struct NameRequest {
  enum class Kind : std::uint8_t { publish, lookup, unpublish };
  Kind kind{};
  std::uint32_t owner = 0;              ///< the rank
  std::vector<PackedItem> items = {};   ///< to publish
  std::vector<std::string> names = {};  ///< to look up or unpublish; unpublish without names: all of the owner
  bool wait = false;                    ///< a lookup waits until all names are published
  std::uint64_t timeout_s = 0;          ///< longest wait in seconds; 0: no limit
};

/// A PMIx event.
struct PackedEvent {
  int status = 0;
  std::uint32_t source = 0;                                ///< rank; PMIX_RANK_UNDEF: no rank
  std::uint8_t range = 0;                                  ///< pmix_data_range_t
  std::vector<std::pair<std::string, std::string>> infos;  ///< keys, and values in libpmix's packing
};

/// Identifies a fence of ranks of several hosts.  Packed, it is the same on every host.
struct FenceName {
  std::vector<std::uint32_t> ranks;  ///< ascending; PMIX_RANK_WILDCARD is all of them
  std::string what;                  ///< the operation: "fence", "connect", ...
};

class Cluster {
 public:
  using Data = std::function<void(int status, const std::string& data)>;
  using Items = std::function<void(int status, const std::vector<PackedItem>& items)>;

  virtual ~Cluster() = default;

  /// All members of this host have arrived at the fence `name` (a packed FenceName), with `data`.  `hosts`: the hosts
  /// with members.  `answer` gets the data of all hosts, one after the other.  If a host passes a `status` that is no
  /// success, all get it.
  virtual void fence(const std::string& name, const std::vector<std::uint32_t>& hosts, int status,
                     const std::string& data, Data answer) = 0;

  /// Sends an event of this host to the clients of all other hosts.  Errors: limit_reached (too long).
  virtual Result<void> notify(const PackedEvent& event) = 0;

  /// Requests the data that `rank`, of another host, has committed.
  virtual void modex(unsigned rank, Data answer) = 0;

  /// Passes a request to the name service.  `answer` gets the items that a lookup found.
  virtual void names(const NameRequest& request, Items answer) = 0;
};

}  // namespace runtime::pmix
