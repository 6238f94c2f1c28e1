// SPDX-License-Identifier: Apache-2.0
// runtime/daemon/uplink.hpp — a daemon's PMIx server and the other hosts: every question goes to the launcher, whose
// answers come back by their number, those of fences in order.  Threads: the loop's thread.
#pragma once
#include <deque>
#include <map>

#include "runtime/daemon/messages.hpp"
#include "runtime/oob/daemon.hpp"
#include "runtime/pmix/server.hpp"

namespace runtime::daemon {

class Uplink final : public pmix::Cluster {
 public:
  Uplink(oob::Daemon& oob, opal::am::Endpoint& launcher, std::uint32_t own_host) noexcept
      : oob_(oob), launcher_(launcher), own_host_(own_host) {}

  template <class M>
  void send(const M& message) {
    // The loss of the launcher ends this daemon; that is noticed elsewhere.
    (void)oob_.send(launcher_, topic(M::kKind), oob::as_bytes(pack(message)));
  }

  /// An answer, or a question about a rank of this host; false when it is neither.
  bool handle(Kind kind, ByteSpan content, pmix::Server& server);

  void fence(const std::string& members, const std::vector<std::uint32_t>& hosts, int status, const std::string& data,
             Data answer) override;
  void modex(unsigned rank, Data answer) override;
  void publish(const std::vector<pmix::PackedItem>& items, Done answer) override;
  void lookup(const std::vector<std::string>& names, bool wait, std::chrono::seconds timeout, Items answer) override;
  void unpublish(unsigned owner, const std::vector<std::string>& names, Done answer) override;

 private:
  oob::Daemon& oob_;
  opal::am::Endpoint& launcher_;
  const std::uint32_t own_host_;
  std::uint64_t questions_ = 0;
  std::map<std::string, std::deque<Data>> fences_;  // by members
  std::map<std::uint64_t, Data> modexes_;
  std::map<std::uint64_t, Done> publications_;
  std::map<std::uint64_t, Items> lookups_;
};

}  // namespace runtime::daemon
