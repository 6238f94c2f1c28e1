// SPDX-License-Identifier: Apache-2.0
// runtime/daemon/tree/tree_member.hpp — this process as a member of the tree of daemons: runs overlay::Node over the
// out-of-band channel, in the event loop.  It also runs the PMIx server's collective operations across hosts (fence,
// connect, disconnect), all by fence().
// Frames and ends of connections that arrive inside the progress of the out-of-band channel are queued and handled by
// the loop afterwards.
// Lifetime: borrows loop, oob and user; must outlive the work that it has posted to the loop.
// Threads: the loop's thread.
#pragma once
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/daemon/tree/messages.hpp"
#include "runtime/daemon/tree/process_map.hpp"
#include "runtime/event/loop.hpp"
#include "runtime/oob/daemon.hpp"
#include "runtime/overlay/node.hpp"

namespace runtime::daemon {

/// The Node's Options for these timeouts: beat and grace are a quarter of the silence timeout, at most 2 s and 3 s.
overlay::Options tree_options(overlay::Id self, overlay::Id count, unsigned radix, const Timeouts& timeouts);

/// What a TreeMember calls.  See the functions of the same name in overlay::Client.
class TreeUser {
 public:
  virtual ~TreeUser() = default;
  /// At the root: a message that member `origin` sent up.  Elsewhere: a message of the root, and `origin` is 0.
  /// `content` is valid during the call.
  virtual void on_message(overlay::Id origin, Kind kind, ByteSpan content) = 0;
  virtual void on_lost(overlay::Id member, overlay::Loss why) = 0;
  /// This member has left the tree: it counts as lost, or no ancestor accepts it.  No call of TreeUser follows.
  virtual void on_out(const char* why) = 0;
};

class TreeMember final : private overlay::Port, private overlay::Client {
 public:
  /// `addresses`: those of its ancestors in the tree, the root included, to which it may connect; empty at the root.
  TreeMember(event::Loop& loop, oob::Daemon& oob, const overlay::Options& options, TreeUser& user,
             std::map<overlay::Id, std::string> addresses);

  /// Called at the end of each service(): received frames, deadlines and queued messages are handled.  Not inside a
  /// call of the Node.
  std::function<void()> after_service = [] {};

  /// Called before the tree disconnects an endpoint, for other users of that endpoint.  May run inside a call of the
  /// Node: of this class only send() and the accessors may be called.
  std::function<void(opal::am::Endpoint&)> on_disconnect = [](opal::am::Endpoint&) {};

  /// DaemonHost::on_message passes each Frame here.
  void on_frame(opal::am::Endpoint& from, std::string frame);
  /// DaemonHost::on_lost passes each endpoint here; one that the tree does not use is ignored.
  void on_closed(opal::am::Endpoint& peer);

  /// Queues a message: from the root to the members `to`, elsewhere to the root, and then `to` is empty.  The loop
  /// gives the messages to the Node in order.  A message of the root is merged into the last queued one if kind and
  /// content are the same and no member is in both.  After on_out() messages are dropped.  Errors: limit_reached
  /// (longer than overlay::kLargestContent).
  Result<void> send(const overlay::IdSet& to, Kind kind, std::string content);

  /// As the functions of overlay::Node.
  void declare_lost(overlay::Id member, overlay::Loss why);
  void acknowledge();
  void on_root_stopped(bool stopped);
  /// Sets the hosts of the ranks (process map).  Called before the first fence.
  void set_hosts(const std::vector<pmix::HostRanks>& hosts) { process_map_ = ProcessMap{hosts}; }
  [[nodiscard]] const ProcessMap& process_map() const noexcept { return process_map_; }
  /// These ranks have ended, on any host: a fence does not wait for a host all of whose ranks in it have ended, and
  /// such a fence fails.
  void on_ranks_ended(const overlay::IdSet& ranks);
  /// See pmix::Cluster::fence.  An operation of the tree with `name` as its key.  `answer` is called once, in the loop;
  /// never if this member leaves the tree first.
  void fence(const std::string& name, const std::vector<std::uint32_t>& hosts, int status, const std::string& data,
             pmix::Cluster::Data answer);
  /// At the root: no message is queued, and the attached children have acknowledged all.
  [[nodiscard]] bool settled() const { return waiting_.empty() && node_->down_settled(); }
  [[nodiscard]] const overlay::Node& node() const noexcept { return *node_; }
  /// True while the out-of-band channel has something unsent for a connection of the tree; messages queued here or in
  /// the Node do not count.
  [[nodiscard]] bool has_unsent() const;

 private:
  struct Arrival {
    overlay::Channel from;
    std::string frame;
    bool closed = false;
  };
  struct Message {
    overlay::IdSet to;  // empty: to the root
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
  void queue(Arrival arrival);
  void schedule();
  /// One run in the loop: arrivals, deadline, queued messages, timer, after_service.
  void service();
  void handle_arrivals();
  void set_timer();

  event::Loop& loop_;
  oob::Daemon& oob_;
  TreeUser& user_;
  const std::map<overlay::Id, std::string> addresses_;
  std::map<overlay::Channel, opal::am::Endpoint*> endpoints_;
  std::map<const opal::am::Endpoint*, overlay::Channel> channels_;
  overlay::Channel last_channel_ = overlay::kNone;  // the last number given
  std::deque<Arrival> arrivals_;
  std::vector<Message> waiting_;  // messages for the Node, which the next service() passes on
  ProcessMap process_map_;
  // By name, in order: the next fence of a name may start before the first has ended.
  std::map<std::string, std::deque<pmix::Cluster::Data>> fences_;
  bool scheduled_ = false;
  event::Timer timer_;
  overlay::Nanoseconds timer_due_ = UINT64_MAX;  // when timer_ fires; UINT64_MAX: not set
  std::optional<overlay::Node> node_;            // last: its constructor uses the others
};

}  // namespace runtime::daemon
