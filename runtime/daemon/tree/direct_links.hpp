// SPDX-License-Identifier: Apache-2.0
// runtime/daemon/tree/direct_links.hpp — connections straight to daemons elsewhere in the tree, made when something is
// to be asked there, used again, closed when nothing has been for a while.  Their endpoints may be the tree's, too: two
// processes have one connection, and the tree's stays.  Threads: the loop's thread.
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
  static constexpr std::chrono::seconds kIdle{3};  ///< a link that was not used for so long, or twice that, goes

  /// `serves_others` tells whether an endpoint is needed when nothing more is asked by it here: it is the tree's, or
  /// the peer waits for an answer of ours.
  DirectLinks(event::Loop& loop, oob::Daemon& oob, std::function<bool(opal::am::Endpoint&)> serves_others);

  /// Where the daemon of that host is reached.
  void learn(std::uint32_t host, std::string address);
  /// Sends a question to that daemon; its answer comes by the same link.  False: it is not known, or out of reach.
  bool ask(std::uint32_t host, Kind kind, const std::string& content);
  /// An answer has come by it: when all have, it may go.
  void answered(std::uint32_t host);
  /// That endpoint has ended, on either side.  Returns the host whose link it was.
  std::optional<std::uint32_t> on_closed(const opal::am::Endpoint& endpoint);

 private:
  struct Link {
    opal::am::Endpoint* endpoint = nullptr;
    std::size_t open = 0;  // questions
    bool used = false;     // since the last check
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
