// SPDX-License-Identifier: Apache-2.0
// runtime/daemon/hub.hpp — the launcher's end of all its daemons: lets them join, hands their messages to their hosts,
// brings fences together, forwards questions for committed data, and keeps the job's names.
// Host 0 is the launcher's own; its PMIx server uses the hub as its Cluster without any message.
// Threads: the loop's thread.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "runtime/daemon/remote_host.hpp"
#include "runtime/pmix/server.hpp"

namespace runtime::daemon {

/// What the hub needs from the job.
struct HubHost {
  std::function<void(unsigned rank, int status, const std::string& text)> on_abort;
  std::function<void(const std::string& line)> say;
};

class Hub final : public pmix::Cluster {
 public:
  Hub(event::Loop& loop, oob::Daemon& oob, pmix::Server& server, std::string job_id, std::vector<pmix::HostRanks> hosts,
      HubHost host);

  /// Makes `host`, not the own one, known; it must outlive the hub.
  void add(std::size_t host, RemoteHost& remote);

  /// For oob::DaemonHost.
  void on_message(opal::am::Endpoint& from, oob::Topic topic, ByteSpan content);
  void on_lost(opal::am::Endpoint& peer, const Error& why);

  /// Lets all daemons go and waits for their agents, at most `patience`; runs the loop.
  void finish(std::chrono::milliseconds patience);

  void fence(const std::string& members, const std::vector<std::uint32_t>& hosts, int status, const std::string& data,
             Data answer) override;
  void modex(unsigned rank, Data answer) override;
  void publish(const std::vector<pmix::PackedItem>& items, Done answer) override;
  void lookup(const std::vector<std::string>& names, bool wait, std::chrono::seconds timeout, Items answer) override;
  void unpublish(unsigned owner, const std::vector<std::string>& names, Done answer) override;

 private:
  /// One fence under way.
  struct Round {
    std::vector<std::uint32_t> hosts;
    std::set<std::uint32_t> arrived;
    int status = 0;
    std::string data;
  };

  void join(opal::am::Endpoint& from, ByteSpan content);
  [[nodiscard]] RemoteHost* find(const opal::am::Endpoint& peer, std::uint32_t& host);
  void handle(std::uint32_t host, RemoteHost& remote, Kind kind, ByteSpan content);
  void arrive(std::uint32_t host, const Fence& fence);
  void ask(const Modex& question);
  void reply(const ModexResult& result);

  event::Loop& loop_;
  oob::Daemon& oob_;
  pmix::Server& server_;
  const std::string job_id_;
  const std::vector<pmix::HostRanks> hosts_;
  const HubHost host_;
  std::map<std::uint32_t, RemoteHost*> remotes_;
  std::map<std::string, std::deque<Round>> fences_;     // by members; the same fence may start again early
  std::map<std::string, std::deque<Data>> own_fences_;  // answers for host 0, in order
  std::map<std::uint64_t, Data> own_questions_;         // of host 0
  std::uint64_t questions_ = 0;
  event::Timer finish_timer_;
  event::Timer finish_round_;
};

}  // namespace runtime::daemon
