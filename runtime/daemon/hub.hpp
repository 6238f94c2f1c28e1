// SPDX-License-Identifier: Apache-2.0
// runtime/daemon/hub.hpp — the launcher among its daemons: the root of their tree, which lets them join and tells them
// their places, hands their messages to their hosts, forwards questions for committed data, and keeps the job's names.
// Host 0 is the launcher's own; its PMIx server uses the hub as its Cluster without any message.
// Threads: the loop's thread.
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

  /// Makes `host`, not the own one, known; it must outlive the hub.
  void add(std::size_t host, RemoteHost& remote);

  /// To the daemon of that host, along the tree.  Errors: limit_reached (longer than the tree takes).
  Result<void> send(std::size_t host, Kind kind, std::string content) {
    return tree_.send(overlay::IdSet::of(static_cast<overlay::Id>(host)), kind, std::move(content));
  }
  /// That host is lost, by other news than the tree's.
  void lose(std::size_t host);
  /// That rank has ended: fences that name it, and others of its host that have all ended, do not wait for that host,
  /// and fail with PMIX_ERR_PROC_TERM_WO_SYNC.
  void end(unsigned rank);

  /// For oob::DaemonHost.
  void on_message(opal::am::Endpoint& from, oob::Topic topic, std::string content);
  void on_lost(opal::am::Endpoint& peer, const Error& why);

  /// Lets all daemons go and waits for their agents, at most `timeout`; runs the loop.
  void finish(std::chrono::milliseconds timeout);

  void fence(const std::string& name, const std::vector<std::uint32_t>& hosts, int status, const std::string& data,
             Data answer) override {
    tree_.fence(name, hosts, status, data, std::move(answer));
  }
  Result<void> notify(const pmix::PackedEvent& event) override { return pass_on(event, kOwnHost); }
  void modex(unsigned rank, Data answer) override;
  void names(const pmix::NameRequest& request, Items answer) override { server_.names(request, answer); }

 private:
  static constexpr std::uint32_t kOwnHost = 0;

  /// A daemon that has joined.
  struct Joined {
    opal::am::Endpoint* endpoint;  // by which it asked; null once that is gone
    std::string address;
    bool placed = false;
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
  overlay::IdSet ended_;  // ranks of which the daemons have not been told
  event::Timer ended_timer_;
  TreeMember tree_;
  std::map<std::uint64_t, Data> own_questions_;  // of host 0
  /// Questions that are with the host of their rank: asker and number, and that host.
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint32_t> forwarded_;
  std::uint64_t questions_ = 0;
  event::Timer finish_timer_;
  event::Timer finish_round_;
};

}  // namespace runtime::daemon
