// SPDX-License-Identifier: Apache-2.0
// runtime/overlay/node.hpp — one member of the tree of daemons, as a state machine.  Input: frames, ends of connections
// and the time; output: frames and deliveries.  It has no socket, clock or thread, so opald and the simulation run the
// same code.  docs/design/overlay.md has its guarantees and their proofs.
//
// Memory: the sender on each link has at most Options::window bytes in flight.  So a member holds at most that for each
// child, and its own messages that are not acknowledged, besides the data of open collective operations.
// Threads: one at a time.  Functions of Node may be called inside calls of Client, but not inside those of Port.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "runtime/overlay/collectives.hpp"
#include "runtime/overlay/tree.hpp"
#include "runtime/overlay/wire.hpp"

namespace runtime::overlay {

using Nanoseconds = std::uint64_t;  ///< a time of one monotonic clock, or a duration
using Channel = std::uint64_t;      ///< the number of a connection, given by the Port
inline constexpr Channel kNone = 0;

/// The connections of a Node.  While a connection lives, frames arrive whole, once and in order.
class Port {
 public:
  virtual ~Port() = default;
  /// Begins a connection to `member`; frames may be sent at once.  Returns kNone when it is known to be impossible.
  virtual Channel connect(Id member) = 0;
  /// Sends a frame.  Node::on_closed() reports a failure after the call.
  virtual void send(Channel channel, std::string frame) = 0;
  /// The Node does not use the channel after this call; on_closed() does not follow.
  virtual void close(Channel channel) = 0;
};

/// The user of the Node.
class Client {
 public:
  virtual ~Client() = default;
  // `content` is valid during the call.
  /// At the root: a message of `origin`; each once, in the order of its send_up() calls.
  virtual void on_up(Id origin, std::uint16_t topic, ByteSpan content) = 0;
  /// At other members: a message of the root; each once, in the order of its send_down() calls.
  virtual void on_down(std::uint16_t topic, ByteSpan content) = 0;
  /// A collective operation with this member as a participant has ended.
  virtual void on_release(const Release& release) = 0;
  /// Returns the members that will not arrive at an operation with `key`, though they may live.  Operations end without
  /// them and list them in Release::lost.  The set for a key may only grow.  It may grow at different times in
  /// different members; each then calls Node::recheck().
  [[nodiscard]] virtual IdSet absent(const std::string& key) const = 0;
  /// `member` counts as lost, in the whole tree and for ever.  The root decides it and informs all members.
  virtual void on_lost(Id member, Loss why) = 0;
  /// This member is out: it counts as lost, or reaches no member above it.  No further call follows.
  virtual void on_out(const char* why) = 0;
};

struct Options {
  Id self = 0;
  Id count = 1;
  unsigned radix = 16;
  Nanoseconds beat = 1'000'000'000;              ///< interval of the heartbeats to parent and children
  Nanoseconds silence_timeout = 10'000'000'000;  ///< without a frame, before parent or child counts as out of reach
  Nanoseconds grace = 2'000'000'000;    ///< out of reach, before a member counts as lost if it does not attach again
  Nanoseconds start = 60'000'000'000;   ///< before a child must have attached for the first time
  Nanoseconds ack_delay = 250'000'000;  ///< before an acknowledgement is sent for less than a quarter of the window
  std::size_t window = 256U << 10;      ///< bytes sent on a link and not acknowledged
};

class Node {
 public:
  /// The root waits for its children; any other member attaches to its parent.
  Node(const Options& options, Port& port, Client& client, Nanoseconds now);
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // --- Input
  void on_frame(Channel from, ByteSpan bytes, Nanoseconds now);
  void on_closed(Channel channel, Nanoseconds now);
  void on_time(Nanoseconds now);
  /// The time at which the user must call on_time().
  [[nodiscard]] Nanoseconds deadline() const noexcept;

  // --- Requests.  Requires: topic >= kFirstUserTopic, at most kLargestContent bytes.
  /// Sends a message to the root.  Requires: this member is not the root.  Does nothing if it is out.
  void send_up(std::uint16_t topic, std::string_view content);
  /// Sends a message from the root to the members `to`.
  void send_down(const IdSet& to, std::uint16_t topic, std::string_view content);
  /// This member arrives at its next operation with `key`.  Client::on_release() reports the end.
  void arrive(const std::string& key, const IdSet& participants, std::int64_t status, std::string data);
  /// At the root: declares `member` lost for a reason that the tree does not know.
  void declare_lost(Id member, Loss why, Nanoseconds now);
  /// Client::absent() has grown for some key.
  void recheck();
  /// The root stops (SIGSTOP), or runs again.  While it is stopped, its children do not count its silence. Acknowledges
  /// at once: the root stops when it knows that the members have been told.
  void on_root_stopped(bool stopped, Nanoseconds now);
  /// Sends all acknowledgements now instead of after Options::ack_delay.
  void acknowledge(Nanoseconds now);

  // --- State
  [[nodiscard]] const Tree& tree() const noexcept { return tree_; }
  [[nodiscard]] bool attached() const noexcept { return is_root() || state_ == State::attached; }
  [[nodiscard]] bool out() const noexcept { return state_ == State::out; }
  [[nodiscard]] Id parent() const noexcept { return parent_; }
  [[nodiscard]] const IdSet& lost() const noexcept { return lost_; }
  /// True when the attached children have acknowledged all messages of the root for their subtrees.
  [[nodiscard]] bool down_settled() const noexcept;

 private:
  friend struct NodeProbe;  // of the tests
  enum class State : std::uint8_t { attaching, waiting, attached, out };
  using Body = std::shared_ptr<const std::string>;

  struct Child {
    Channel channel = kNone;
    std::uint32_t attach = 0;
    Range subtree;
    Loss missed = Loss::absent;     // without a channel: the reason in report_lost
    Nanoseconds due = 0;            // with a channel: its next frame must have come; without: it is reported lost
    std::uint64_t up_received = 0;  // number of its last up message that has come
    std::size_t up_unacked = 0;     // bytes of its up messages since the last acknowledgement to it
    std::uint64_t up_ackable = 0;   // number of its last up message that the root has
    std::uint64_t up_acked = 0;     // number acknowledged to it
    std::uint64_t down_sent = 0;    // number of the root's last message sent to it, or passed over
    std::uint64_t down_acked = 0;   // number of the root's last message that its subtree has acknowledged
    std::size_t down_flight = 0;    // bytes of down messages sent and not acknowledged
  };
  struct UpItem {
    Body body;
    Id child = 0;                    // the child that it came from; 0: this member's own message
    std::uint64_t child_number = 0;  // its number on the link of that child
  };
  struct DownItem {
    std::uint64_t number = 0;
    IdSet to;
    Body body;
  };

  /// Where a member is attached, as last reported.
  struct Place {
    std::uint32_t attach = 0;
    Id parent = 0;
  };

  [[nodiscard]] bool is_root() const noexcept { return options_.self == 0; }

  // attach.cpp: how members find their place and lose it
  void close_parent_channel();
  void attach_to(Id member);
  void attach_failed();
  void connect_failed(Id member);
  void lose_parent(bool silent);
  void leave(const char* why);
  void on_parent_sign();
  void on_attach(Channel from, std::uint32_t attach, const Attach& message);
  void on_attached(const Attached& message);
  void on_refused(const Refused& message);
  void on_moved(Id member);
  Child& adopt(Id member, std::uint64_t down_acked, Nanoseconds due);
  void detach(Child& child, Loss why);
  void drop_child(Id member);
  void await_children_of(Id lost, const Child& former);
  [[nodiscard]] bool has_moved(Id member) const noexcept;
  void report(InternalTopic topic, Id member, std::uint32_t attach, Loss why = Loss::declared);
  void on_report(Id reporter, InternalTopic topic, const Report& report);
  void on_lost(Id member, Loss why);
  [[nodiscard]] Child* covering(Id member) noexcept;
  void on_child_due(Id member);
  void check_children();

  // messages.cpp: both streams
  void on_up(Id from, std::uint64_t number, ByteSpan body);
  [[nodiscard]] bool is_full(std::size_t flight, std::size_t size) const noexcept;
  void deliver_up(ByteSpan body);
  void push_up(UpItem item);
  void pump_up();
  void on_up_ack(std::uint64_t number);
  void on_down(std::uint64_t number, ByteSpan body);
  void push_down(const IdSet& to, std::string body);
  void pump_down(Child& child);
  void on_down_ack(Child& child, std::uint64_t number);
  void count_flight(Child& child);
  void trim_down();
  [[nodiscard]] bool concerns(const DownItem& item, Id member, const Child& child) const noexcept;
  void own_down(const Down& message);
  void ack_later();
  void send_acks();
  void ack_parent();
  void ack_child(Child& child);
  [[nodiscard]] std::uint64_t down_ackable() const noexcept;

  // operations.cpp
  void on_contribution(const Contribution& contribution);
  void on_release(const Down& message);
  void look_at(const OperationName& name);
  void check_all();
  void release(const OperationName& name);
  [[nodiscard]] IdSet responsibility() const;

  void send_parent(FrameType type, std::uint64_t number, std::string_view body = {});
  void send_child(const Child& child, FrameType type, std::uint64_t number, std::string_view body = {}) const;
  void excuse(Nanoseconds late);
  void beat();
  void on_parent_frame(const FrameHeader& header, ByteSpan body);
  void on_child_frame(Id member, const FrameHeader& header, ByteSpan body);

  const Options options_;
  const Tree tree_;
  const Range subtree_;
  Port& port_;
  Client& client_;
  Nanoseconds now_;

  State state_ = State::attached;
  Id parent_ = 0;
  Channel parent_channel_ = kNone;
  std::uint32_t attach_ = 0;
  bool fresh_ = true;
  bool root_stopped_ = false;
  Nanoseconds parent_due_ = 0;  // attached: the parent's next frame must have come; else: the attempt ends
  Nanoseconds give_up_ = 0;     // not attached: this member is out after this time
  Nanoseconds beat_due_;
  Nanoseconds ack_due_ = UINT64_MAX;

  std::map<Id, Child> children_;  // attached or awaited
  std::map<Channel, Id> by_channel_;
  std::set<Id> moved_;  // roots of subtrees below this member that have a parent above it
  IdSet lost_;

  std::deque<UpItem> up_;                 // messages for the root that the parent has not acknowledged
  std::uint64_t up_first_ = 1;            // number of up_.front(); the following ones count up
  std::uint64_t up_sent_ = 0;             // number of the last one sent since this member attached
  std::size_t up_flight_ = 0;             // bytes from up_first_ to up_sent_
  std::uint64_t own_sequence_ = 0;        // Up::sequence of the last own message
  std::map<Id, std::uint64_t> heard_of_;  // root: Up::sequence of the last message of each origin
  std::map<Id, Place> places_;            // root: of members that have left their first parent

  std::deque<DownItem> down_;        // messages of the root that some child has still to acknowledge
  std::uint64_t down_received_ = 0;  // number of the root's last message that this member has
  std::uint64_t down_acked_ = 0;     // number acknowledged to the parent
  std::size_t down_unacked_ = 0;     // bytes received since the last acknowledgement to the parent

  Collectives collectives_;
};

}  // namespace runtime::overlay
