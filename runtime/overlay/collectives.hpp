// SPDX-License-Identifier: Apache-2.0
// runtime/overlay/collectives.hpp — fence, gather and allgather of one member of the tree: parts are merged on the way
// up and travel as a state, not as messages in a stream: telling one twice, or by two ways, changes nothing.
// A part says whose arrival it covers.  Threads: as its Node.
#pragma once
#include <map>
#include <set>
#include <string>

#include "runtime/overlay/wire.hpp"

namespace runtime::overlay {

class Collectives {
 public:
  /// What is known of one operation.
  struct Operation {
    IdSet participants;
    IdSet covered;
    std::int64_t status = 0;
    bool to_root_only = false;
    bool too_large = false;
    std::size_t bytes = 0;  ///< of the parts
    std::map<Id, std::string> parts;
    IdSet told;  ///< what was covered when the parent was last told
  };

  /// The next use of `key` by this member.
  OperationName next(const std::string& key) { return {key, ++uses_[key]}; }
  /// Merges; null when nothing new was in it, or it has ended already.
  Operation* add(const Contribution& contribution);
  [[nodiscard]] Operation* find(const OperationName& name);
  /// Nothing of that operation, or an earlier one with its key, is taken any more.
  void end(const OperationName& name);
  /// True when all earlier uses of its key have ended.
  [[nodiscard]] bool is_next(const OperationName& name) const;
  /// Forgets what is known of it.
  void drop(const OperationName& name) { operations_.erase(name); }
  /// Participants within `mine` that are neither covered nor lost.
  [[nodiscard]] static bool complete(const Operation& operation, const IdSet& mine, const IdSet& lost);
  /// For the parent, after which it counts as told.
  [[nodiscard]] static Contribution tell(const OperationName& name, Operation& operation);
  /// A new parent knows nothing.
  void forget_told();
  [[nodiscard]] std::vector<OperationName> names() const;
  [[nodiscard]] std::size_t open() const noexcept { return operations_.size(); }

 private:
  std::map<OperationName, Operation> operations_;
  std::map<std::string, std::uint64_t> uses_;   // own
  std::map<std::string, std::uint64_t> ended_;  // the last use of each key that has ended; as many as uses_ on all
};

}  // namespace runtime::overlay
