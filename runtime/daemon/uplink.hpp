// SPDX-License-Identifier: Apache-2.0
// runtime/daemon/uplink.hpp — a daemon's PMIx server and the other hosts: fences meet in the tree of daemons, every
// question goes to the launcher, whose answers come back by their number.  Threads: the loop's thread.
#pragma once
#include <map>

#include "opal/core/log.hpp"
#include "runtime/daemon/meetings.hpp"
#include "runtime/pmix/server.hpp"

namespace runtime::daemon {

class Uplink final : public pmix::Cluster {
 public:
  Uplink(TreeMember& tree, std::uint32_t own_host) noexcept : tree_(tree), meetings_(tree), own_host_(own_host) {}

  /// False when it is longer than the tree takes: it is dropped, which the log says.
  template <class M>
  bool send(const M& message) {
    const auto sent = tree_.send_up(M::kKind, pack(message));
    if (!sent) opal::log::error("runtime", "a message to the launcher is dropped: {}", opal::to_string(sent.error()));
    return sent.has_value();
  }

  /// An answer, or a question about a rank of this host; false when it is neither.
  bool handle(Kind kind, ByteSpan content, pmix::Server& server);
  /// For overlay::Client.
  void on_release(const overlay::Release& release) { meetings_.on_release(release); }

  void fence(const std::string& members, const std::vector<std::uint32_t>& hosts, int status, const std::string& data,
             Data answer) override;
  void modex(unsigned rank, Data answer) override;
  void publish(const std::vector<pmix::PackedItem>& items, Done answer) override;
  void lookup(const std::vector<std::string>& names, bool wait, std::chrono::seconds timeout, Items answer) override;
  void unpublish(unsigned owner, const std::vector<std::string>& names, Done answer) override;

 private:
  TreeMember& tree_;
  Meetings meetings_;
  const std::uint32_t own_host_;
  std::uint64_t questions_ = 0;
  std::map<std::uint64_t, Data> modexes_;
  std::map<std::uint64_t, Done> publications_;
  std::map<std::uint64_t, Items> lookups_;
};

}  // namespace runtime::daemon
