// SPDX-License-Identifier: Apache-2.0
// runtime/daemon/uplink.hpp — sends the requests of a daemon's PMIx server to other hosts.  Fences go through the tree
// of daemons.  Requests go to the launcher; modex requests go directly to the owner's daemon once a result has brought
// its address.  A result has the number of its request.  Threads: the loop's thread.
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

  /// Sends to the launcher.  False: longer than the tree takes; it is logged and dropped.
  template <class M>
  bool send(const M& message) {
    const auto sent = tree_.send({}, kKind<M>, pack(message));
    if (!sent) opal::log::error("runtime", "a message to the launcher is dropped: {}", opal::to_string(sent.error()));
    return sent.has_value();
  }

  /// A message of the tree: a modex request or result, an event, a name result.  False: any other kind.
  /// Without a server, a request gets PMIX_ERR_NOT_FOUND.
  bool handle(Kind kind, ByteSpan content, pmix::Server* server);
  /// A modex request or result on a direct connection; also without a server.
  void handle(opal::am::Endpoint& from, Kind kind, ByteSpan content, pmix::Server* server);
  /// An endpoint is closed: its open requests are sent again, through the launcher.
  void on_closed(const opal::am::Endpoint& endpoint);
  /// Ends the direct requests to that host with PMIX_ERR_LOST_CONNECTION; the launcher ends the others.
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
  struct Request {
    unsigned rank;
    Data answer;
    bool direct;  // sent on a direct link, not through the launcher
  };
  /// Ends the open request with that number; a result without one is ignored.
  void on_result(const ModexResult& result);

  oob::Daemon& oob_;
  TreeMember& tree_;
  DirectLinks links_;
  const std::uint32_t own_host_;
  std::uint64_t last_request_id_ = 0;
  std::map<std::uint64_t, Request> modex_requests_;
  /// Daemons with open requests on a direct connection, each with their number.
  std::map<const opal::am::Endpoint*, std::shared_ptr<std::size_t>> requesters_;
  std::map<std::uint64_t, Items> name_requests_;
};

}  // namespace runtime::daemon
