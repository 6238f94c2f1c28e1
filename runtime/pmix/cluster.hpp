// SPDX-License-Identifier: Apache-2.0
// runtime/pmix/cluster.hpp — what a PMIx server needs of the servers on the job's other hosts.  Statuses are libpmix's.
// Threads: the loop's thread, also for the answers, each of which comes exactly once unless the process ends before.
#pragma once
#include <chrono>
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
  std::uint32_t owner = 0;
  std::string value;
  std::uint8_t persistence = 0;  ///< pmix_persistence_t
  template <class V>
  void fields(V& v) {
    v(name, owner, value, persistence);
  }
};

/// An event, its infos' values in libpmix's packing.
struct PackedEvent {
  std::int64_t status = 0;
  std::uint32_t source = 0;  ///< rank
  std::uint8_t range = 0;
  std::vector<std::pair<std::string, std::string>> infos;
  template <class V>
  void fields(V& v) {
    v(status, source, range, infos);
  }
};

/// A fence of ranks of several hosts: the same, packed, on every host.
struct FenceName {
  std::vector<std::uint32_t> ranks;  ///< ascending; PMIX_RANK_WILDCARD is all of them
  std::string what;                  ///< "fence", "connect", ...
  template <class V>
  void fields(V& v) {
    v(ranks, what);
  }
};

class Cluster {
 public:
  using Done = std::function<void(int status)>;
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

  virtual void publish(const std::vector<PackedItem>& items, Done answer) = 0;
  /// `timeout` zero waits for ever, if `wait`.
  virtual void lookup(const std::vector<std::string>& names, bool wait, std::chrono::seconds timeout, Items answer) = 0;
  virtual void unpublish(unsigned owner, const std::vector<std::string>& names, Done answer) = 0;
};

}  // namespace runtime::pmix
