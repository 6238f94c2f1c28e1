// SPDX-License-Identifier: Apache-2.0
// runtime/daemon/tree/tree_member.hpp — this process's place in the tree of daemons: overlay::Node over the out-of-band
// channel, in the event loop; and the fences, connects and disconnects of its PMIx server with those of other hosts.
// Frames that arrive inside of the channel's progress are handled after it.
// Threads: the loop's thread.
#pragma once
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "runtime/daemon/tree/messages.hpp"
#include "runtime/daemon/tree/process_map.hpp"
#include "runtime/event/loop.hpp"
#include "runtime/oob/daemon.hpp"
#include "runtime/overlay/node.hpp"

namespace runtime::daemon {

overlay::Options tree_options(overlay::Id self, overlay::Id count, unsigned radix, const Timeouts& timeouts);

/// The user of a TreeMember; as overlay::Client.
class TreeUser {
 public:
  virtual ~TreeUser() = default;
  /// At the root: a message of `origin`; elsewhere one of the root, whose number is 0.
  virtual void on_message(overlay::Id origin, Kind kind, ByteSpan content) = 0;
  virtual void on_lost(overlay::Id member, overlay::Loss why) = 0;
  virtual void on_out(const char* why) = 0;
};

class TreeMember final : private overlay::Port, private overlay::Client {
 public:
  /// `addresses`: those of members that this one may have to connect to, all above it in the tree.
  TreeMember(event::Loop& loop, oob::Daemon& oob, const overlay::Options& options, TreeUser& user,
             std::map<overlay::Id, std::string> addresses);

  /// Called after whatever has happened, outside of the Node.
  std::function<void()> after_turn = [] {};

  /// Called when the tree ends a connection: other users of it lose it.
  std::function<void(opal::am::Endpoint&)> on_close = [](opal::am::Endpoint&) {};
  /// Whether the tree has a use for it.
  [[nodiscard]] bool has(const opal::am::Endpoint& endpoint) const { return channels_.contains(&endpoint); }

  /// For oob::DaemonHost: a Frame, the end of a connection.
  void on_frame(opal::am::Endpoint& from, std::string frame);
  void on_closed(opal::am::Endpoint& peer);

  /// At the root to others, elsewhere to the root, where `to` is empty; goes out from the loop, in order, as soon as
  /// the tree takes it.  The same message to several members one after the other travels once.  Errors: limit_reached
  /// (longer than the tree takes).
  Result<void> send(const overlay::IdSet& to, Kind kind, std::string content);

  /// See overlay::Node::declare_lost, acknowledge.
  void declare_lost(overlay::Id member, overlay::Loss why);
  void acknowledge();
  /// Where each rank of the job is.
  void know(const std::vector<pmix::HostRanks>& hosts) { process_map_ = ProcessMap{hosts}; }
  [[nodiscard]] const ProcessMap& process_map() const noexcept { return process_map_; }
  /// These ranks, of whatever hosts, have ended: fences do not wait for them.
  void end(const overlay::IdSet& ranks);
  /// See pmix::Cluster::fence: an operation of the tree, whose key is its name.
  void fence(const std::string& name, const std::vector<std::uint32_t>& hosts, int status, const std::string& data,
             pmix::Cluster::Data answer);
  [[nodiscard]] const overlay::Node& node() const noexcept { return *node_; }
  /// True while the channel holds something for the parent or a child.
  [[nodiscard]] bool has_unsent() const;

 private:
  struct Arrival {
    overlay::Channel from;
    std::string frame;
    bool closed = false;
  };
  struct Message {
    overlay::IdSet to;  // empty: the root
    Kind kind;
    std::string content;
  };
  // overlay::Client
  void on_up(overlay::Id origin, std::uint16_t topic, ByteSpan content) override {
    user_.on_message(origin, static_cast<Kind>(topic), content);
  }
  void on_down(std::uint16_t topic, ByteSpan content) override {
    user_.on_message(0, static_cast<Kind>(topic), content);
  }
  void on_release(const overlay::Release& release) override;
  [[nodiscard]] overlay::IdSet absent(const std::string& key) const override { return process_map_.absent(key); }
  void on_lost(overlay::Id member, overlay::Loss why) override { user_.on_lost(member, why); }
  void on_out(const char* why) override { user_.on_out(why); }

  // overlay::Port
  overlay::Channel connect(overlay::Id member) override;
  void send(overlay::Channel channel, std::string frame) override;
  void close(overlay::Channel channel) override;
  overlay::Channel channel_of(opal::am::Endpoint& endpoint);
  void take(Arrival arrival);
  void schedule();
  void service();
  void handle_arrivals();
  void arm();

  event::Loop& loop_;
  oob::Daemon& oob_;
  TreeUser& user_;
  const std::map<overlay::Id, std::string> addresses_;
  std::map<overlay::Channel, opal::am::Endpoint*> endpoints_;
  std::map<const opal::am::Endpoint*, overlay::Channel> channels_;
  overlay::Channel last_channel_ = overlay::kNone;
  std::deque<Arrival> arrivals_;
  std::deque<Message> waiting_;
  ProcessMap process_map_;
  std::map<std::string, std::deque<pmix::Cluster::Data>> fences_;  // by name; the same may meet again early
  bool scheduled_ = false;
  event::Timer timer_;
  overlay::Nanoseconds armed_ = UINT64_MAX;  // when timer_ fires
  std::optional<overlay::Node> node_;        // last: its constructor uses the others
};

}  // namespace runtime::daemon
