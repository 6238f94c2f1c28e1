// SPDX-License-Identifier: Apache-2.0
// runtime/daemon/hub.hpp — the launcher's end of the connections to its daemons; the root of their tree.  It
//  - accepts daemons and sends each its place in the tree,
//  - passes the messages of a daemon to its RemoteHost,
//  - forwards requests for the committed data of a rank to the host of the rank,
//  - forwards events and serves the job's published names.
// Host 0 is the launcher's own; its PMIx server calls the hub directly, as its Cluster.
// References passed to the constructor must outlive the hub.  Threads: the loop's thread.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "runtime/daemon/remote_host.hpp"
#include "runtime/daemon/tree/tree_member.hpp"
#include "runtime/pmix/server.hpp"

namespace runtime::daemon {

class Hub final : public pmix::Cluster, private TreeUser {
 public:
  Hub(event::Loop& loop, oob::Daemon& oob, pmix::Server& server, std::string job_id,
      const std::vector<pmix::HostRanks>& hosts, unsigned radix, const Timeouts& timeouts);

  /// Registers `remote` as host number `host` (1 or more).  `remote` must outlive the hub.
  void add(std::size_t host, RemoteHost& remote);

  /// Sends a message to the daemon of `host` along the tree.  Errors: limit_reached (longer than the tree takes).
  Result<void> send(std::size_t host, Kind kind, std::string content) {
    return tree_.send(overlay::IdSet::of(static_cast<overlay::Id>(host)), kind, std::move(content));
  }
  /// True when the daemons in the tree have all messages that were sent to them.
  [[nodiscard]] bool settled() const { return tree_.settled(); }
  /// Declares `host` lost for a reason that the tree does not know.
  void lose(std::size_t host);
  /// Records that `rank` has ended and informs all daemons.  A fence whose ranks on one host have all ended does not
  /// wait for that host; it fails with PMIX_ERR_PROC_TERM_WO_SYNC.
  void end(unsigned rank);

  // The callbacks of oob::DaemonHost.
  void on_message(opal::am::Endpoint& from, oob::Topic topic, std::string content);
  void on_lost(opal::am::Endpoint& peer, const Error& why);

  /// Sends Quit to all daemons, runs the loop until their agents have ended or `timeout` is over, then kills the agents
  /// that are left.
  void finish(std::chrono::milliseconds timeout);

  void fence(const std::string& name, const std::vector<std::uint32_t>& hosts, int status, const std::string& data,
             Data answer) override {
    tree_.fence(name, hosts, status, data, std::move(answer));
  }
  Result<void> notify(const pmix::PackedEvent& event) override { return pass_on(event, kOwnHost); }
  void modex(unsigned rank, Data answer) override;
  void names(const pmix::NameRequest& request, Items answer) override { server_.names().serve(request, answer); }

 private:
  static constexpr std::uint32_t kOwnHost = 0;

  /// A daemon that has sent Join.
  struct Joined {
    opal::am::Endpoint* endpoint;  // from which the Join came; null when that has closed
    std::string address;
    bool placed = false;  // its Place has been sent
  };

  // TreeUser
  void on_message(overlay::Id host, Kind kind, ByteSpan content) override;
  void on_lost(overlay::Id member, overlay::Loss why) override;
  void on_out(const char*) override {}

  void join(opal::am::Endpoint& from, ByteSpan content);
  void turn_away(opal::am::Endpoint& from, const std::string& why);
  void place_all();
  bool place(std::uint32_t host, const Joined& joined);
  Result<void> pass_on(const pmix::PackedEvent& event, std::uint32_t origin);
  void tell_ended();
  void ask(const Modex& question);
  void reply(const ModexResult& result);

  event::Loop& loop_;
  oob::Daemon& oob_;
  pmix::Server& server_;
  const std::string job_id_;
  std::map<std::uint32_t, RemoteHost*> remotes_;
  std::map<std::uint32_t, Joined> joined_;
  overlay::IdSet ended_;  // ranks whose end the next Ended message reports to the daemons
  event::Timer ended_timer_;
  TreeMember tree_;
  std::map<std::uint64_t, Data> own_questions_;  // modex requests of host 0 without an answer, by number
  /// Forwarded modex requests without an answer.  Key: requesting host, number; value: the host of the rank.
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint32_t> forwarded_;
  std::uint64_t questions_ = 0;  // number of the last request of host 0
  event::Timer finish_round_;
};

}  // namespace runtime::daemon
