// SPDX-License-Identifier: Apache-2.0
// runtime/daemon/tree/fences.hpp — fences, connects and disconnects of this host's PMIx server with those of other
// hosts: each is an operation of the tree of daemons, whose key is its name.  Threads: the loop's thread.
#pragma once
#include <deque>
#include <map>

#include "runtime/daemon/tree/tree_member.hpp"
#include "runtime/pmix/cluster.hpp"

namespace runtime::daemon {

class Fences {
 public:
  explicit Fences(TreeMember& tree) noexcept : tree_(tree) {}

  /// See pmix::Cluster::fence.
  void arrive(const std::string& name, const std::vector<std::uint32_t>& hosts, int status, const std::string& data,
              pmix::Cluster::Data answer);
  /// For overlay::Client.
  void on_release(const overlay::Release& release);

 private:
  TreeMember& tree_;
  std::map<std::string, std::deque<pmix::Cluster::Data>> waiting_;  // by name; the same may meet again early
};

}  // namespace runtime::daemon
