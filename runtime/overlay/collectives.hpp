// SPDX-License-Identifier: Apache-2.0
// runtime/overlay/collectives.hpp — fence and allgather of one member of the tree: parts are merged on the way up and
// are sent as the whole state so far: a second copy, through the same parent or another, changes nothing.
// A contribution says whose arrival it covers.  Threads: as its Node.
#pragma once
#include <map>
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
    std::size_t bytes = 0;  ///< of the packed parts
    std::map<Id, std::string> parts;
    IdSet sent;  ///< what the last contribution to the parent covered
  };

  /// The next operation of this member with `key`.
  OperationName next(const std::string& key) { return {key, ++last_sequence_[key]}; }
  /// Merges; null when nothing new was in it, or it has ended already.
  Operation* add(const Contribution& contribution);
  [[nodiscard]] Operation* find(const OperationName& name);
  /// Nothing of that operation, or an earlier one with its key, is taken any more.
  void end(const OperationName& name);
  /// True when all earlier operations with its key have ended.
  [[nodiscard]] bool is_next(const OperationName& name) const;
  /// Removes its state; it does not count as ended.
  void drop(const OperationName& name) { operations_.erase(name); }
  /// Every participant within `responsibility` is covered or in `lost_or_absent`.
  [[nodiscard]] static bool complete(const Operation& operation, const IdSet& responsibility,
                                     const IdSet& lost_or_absent);
  /// The contribution for the parent; marks it as sent.
  [[nodiscard]] static Contribution to_contribution(const OperationName& name, Operation& operation);
  /// After attaching to a parent: all contributions are due again.
  void reset_sent();
  [[nodiscard]] std::vector<OperationName> names() const;

 private:
  friend struct NodeProbe;  // of the tests
  std::map<OperationName, Operation> operations_;
  std::map<std::string, std::uint64_t> last_sequence_;  // by key: the number of this member's last operation
  std::map<std::string, std::uint64_t> ended_;          // by key: the number of the last operation that has ended
};

}  // namespace runtime::overlay
