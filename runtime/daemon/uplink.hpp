// SPDX-License-Identifier: Apache-2.0
// runtime/daemon/uplink.hpp — a daemon's PMIx server and the other hosts: fences meet in the tree of daemons, every
// question goes to the launcher, whose answers come back by their number; those for data straight to their daemon, once
// an answer has told where it is.  Threads: the loop's thread.
#pragma once
#include <map>
#include <memory>

#include "opal/core/log.hpp"
#include "runtime/daemon/tree/direct_links.hpp"
#include "runtime/daemon/tree/tree_member.hpp"
#include "runtime/pmix/server.hpp"

namespace runtime::daemon {

class Uplink final : public pmix::Cluster {
 public:
  Uplink(event::Loop& loop, oob::Daemon& oob, TreeMember& tree, std::uint32_t own_host);

  /// False when it is longer than the tree takes: it is dropped, which the log says.
  template <class M>
  bool send(const M& message) {
    const auto sent = tree_.send({}, kKind<M>, pack(message));
    if (!sent) opal::log::error("runtime", "a message to the launcher is dropped: {}", opal::to_string(sent.error()));
    return sent.has_value();
  }

  /// An answer, or a question about a rank of this host; false when it is neither.
  bool handle(Kind kind, ByteSpan content, pmix::Server& server);
  /// The same for what has come straight from another daemon.
  void handle(opal::am::Endpoint& from, Kind kind, ByteSpan content, pmix::Server* server);
  void on_closed(const opal::am::Endpoint& endpoint);
  /// What was asked of that host straight is answered.
  void on_lost(std::uint32_t host);
  void fence(const std::string& name, const std::vector<std::uint32_t>& hosts, int status, const std::string& data,
             Data answer) override {
    tree_.fence(name, hosts, status, data, std::move(answer));
  }
  Result<void> notify(const pmix::PackedEvent& event) override {
    return tree_.send({}, kKind<pmix::PackedEvent>, pack(event));
  }
  void modex(unsigned rank, Data answer) override;
  void names(const pmix::NameRequest& request, Items answer) override;

 private:
  struct Question {
    unsigned rank;
    Data answer;
    bool straight;  // not by the launcher
  };
  void take(const ModexResult& result);

  oob::Daemon& oob_;
  TreeMember& tree_;
  DirectLinks links_;
  const std::uint32_t own_host_;
  std::uint64_t questions_ = 0;
  std::map<std::uint64_t, Question> modexes_;
  /// The daemons that have asked directly, each with how many questions wait for an answer of ours.
  std::map<const opal::am::Endpoint*, std::shared_ptr<std::size_t>> guests_;
  std::map<std::uint64_t, Items> name_requests_;
};

}  // namespace runtime::daemon
