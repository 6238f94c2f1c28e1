// SPDX-License-Identifier: Apache-2.0
// runtime/daemon/uplink.hpp — sends the requests of a daemon's PMIx server to other hosts.  Fences go through the tree
// of daemons.  Requests go to the launcher; modex requests go directly to the owner's daemon once a result has brought
// its address.  A result has the number of its request.
// The first direct request to a host opens a connection, which later ones use again.
// Endpoints belong to the oob::Daemon.  Threads: the loop's thread.
#pragma once
#include <map>
#include <memory>

#include "opal/core/log.hpp"
#include "runtime/daemon/tree/tree_member.hpp"
#include "runtime/pmix/server.hpp"

namespace runtime::daemon {

class Uplink final : public pmix::Cluster {
 public:
  Uplink(oob::Daemon& oob, TreeMember& tree, std::uint32_t own_host) : oob_(oob), tree_(tree), own_host_(own_host) {}

  /// Sends to the launcher.  False: longer than the tree takes; it is logged and dropped.
  template <class M>
  bool send(const M& message) {
    const auto sent = tree_.send({}, kKind<M>, pack(message));
    if (!sent) opal::log::error("runtime", "a message to the launcher is dropped: {}", opal::to_string(sent.error()));
    return sent.has_value();
  }

  /// A modex request or result, an event, a name result.  False: any other kind.  Without a server, a request gets
  /// PMIX_ERR_NOT_FOUND.  `from`: the direct connection over which the message came; null: it came along the tree.
  bool handle(Kind kind, ByteSpan content, pmix::Server* server, opal::am::Endpoint* from = nullptr);
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
  /// The direct connection to another daemon.
  struct Link {
    std::string address;
    opal::am::Endpoint* endpoint = nullptr;  // null: not connected
  };
  bool ask_directly(std::uint32_t host, const Modex& request);
  [[nodiscard]] bool is_sent_to(const Request& request, std::uint32_t host) const {
    return request.direct && tree_.process_map().host_of(request.rank) == host;
  }
  Data answer_to(const Modex& request, opal::am::Endpoint* from);
  /// Ends the open request with that number; a result without one is ignored.
  void on_result(const ModexResult& result);

  oob::Daemon& oob_;
  TreeMember& tree_;
  const std::uint32_t own_host_;
  std::uint64_t last_request_id_ = 0;
  std::map<std::uint64_t, Request> modex_requests_;
  std::map<std::uint32_t, Link> links_;  // by host; of those whose address is known
  /// Daemons that have sent a request on a direct connection; the pointer expires with the connection.
  std::map<const opal::am::Endpoint*, std::shared_ptr<char>> requesters_;
  std::map<std::uint64_t, Items> name_requests_;
};

}  // namespace runtime::daemon
