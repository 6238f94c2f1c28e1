// SPDX-License-Identifier: Apache-2.0
// runtime/overlay/collectives.hpp — fence and allgather of one member of the tree: parts are merged on the way
// up and travel as a state, not as messages in a stream: a second copy, by the same parent or another, changes nothing.
// A part says whose arrival it covers.  Threads: as its Node.
#pragma once
#include <algorithm>
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
    bool too_large = false;
    std::size_t bytes = 0;  ///< of the parts
    std::map<Id, std::string> parts;
    IdSet sent;  ///< what the last contribution to the parent covered
  };

  /// The next use of `key` by this member.
  OperationName next(const std::string& key) { return {key, ++uses_[key]}; }
  /// Merges; null when nothing new was in it, or it has ended already.
  Operation* add(const Contribution& contribution);
  [[nodiscard]] Operation* find(const OperationName& name);
  /// Nothing of that operation, or an earlier one with its key, is taken any more.
  void end(const OperationName& name);
  /// At the root: keys of which nothing is open, the longest unused first, so many that at most half of `keep` remain;
  /// none as long as there are no more than `keep`.
  [[nodiscard]] Forget unused(std::size_t keep) const;
  /// Counts the uses of its key anew from the one after it, which has ended.
  void forget(const OperationName& last);
  /// True when all earlier uses of its key have ended.
  [[nodiscard]] bool is_next(const OperationName& name) const;
  /// Forgets what is known of it.
  void drop(const OperationName& name) { operations_.erase(name); }
  /// No participant within `mine` is missing: each is covered, or one of those that are `gone`.
  [[nodiscard]] static bool complete(const Operation& operation, const IdSet& mine, const IdSet& gone);
  /// The contribution for the parent; it counts as sent.
  [[nodiscard]] static Contribution to_contribution(const OperationName& name, Operation& operation);
  /// A new parent knows nothing.
  void reset_sent();
  [[nodiscard]] std::vector<OperationName> names() const;

 private:
  friend struct NodeProbe;  // of the tests
  std::map<OperationName, Operation> operations_;
  struct Ended {
    std::uint64_t use = 0;    // the last one of its key
    std::uint64_t order = 0;  // among all that have ended here
  };
  std::map<std::string, std::uint64_t> uses_;  // own
  std::map<std::string, Ended> ended_;
  std::uint64_t ends_ = 0;
};

}  // namespace runtime::overlay
