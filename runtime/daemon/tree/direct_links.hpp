// SPDX-License-Identifier: Apache-2.0
// runtime/daemon/tree/direct_links.hpp — direct connections from this daemon to other daemons, for modex
// requests.
// A link is opened by the first request to a host, reused by later ones, and closed when it is idle.  Two processes
// share one OOB connection, so the endpoint of a link may also belong to the tree; such an endpoint is not
// disconnected.  Endpoints belong to the oob::Daemon.  Threads: the loop's thread.
#pragma once
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "runtime/daemon/tree/messages.hpp"
#include "runtime/event/loop.hpp"
#include "runtime/oob/daemon.hpp"

namespace runtime::daemon {

class DirectLinks {
 public:
  static constexpr std::chrono::seconds kIdle{3};  ///< a link is closed after one to two times this without a request

  /// `serves_others` returns true for an endpoint that has another use: the tree uses it, or the peer waits for an
  /// answer of this daemon.
  DirectLinks(event::Loop& loop, oob::Daemon& oob, std::function<bool(opal::am::Endpoint&)> serves_others);

  /// Stores the address of the daemon of `host`.
  void learn(std::uint32_t host, std::string address);
  /// Sends a request to the daemon of `host`; the answer comes over the same endpoint.  Returns false when the address
  /// is unknown, the daemon is out of reach or the send queue is full.
  bool ask(std::uint32_t host, Kind kind, const std::string& content);
  /// An answer to a request of ask() has come.  A link without open requests may be closed.
  void answered(std::uint32_t host);
  /// `endpoint` has been closed by either side.  Returns the host if it was the endpoint of a link.
  std::optional<std::uint32_t> on_closed(const opal::am::Endpoint& endpoint);

 private:
  struct Link {
    opal::am::Endpoint* endpoint = nullptr;
    std::size_t open = 0;  // requests without an answer
    bool used = false;     // a request was sent since the last close_idle()
  };
  void close_idle();

  event::Loop& loop_;
  oob::Daemon& oob_;
  const std::function<bool(opal::am::Endpoint&)> serves_others_;
  std::map<std::uint32_t, std::string> addresses_;
  std::map<std::uint32_t, Link> links_;
  event::Timer timer_;
};

}  // namespace runtime::daemon
