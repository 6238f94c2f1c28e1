// SPDX-License-Identifier: Apache-2.0
// runtime/overlay/node.hpp — one member of the tree of daemons, as a state machine: frames, ends of connections and the
// time go in, frames and deliveries come out.  No socket, clock or thread: opald and the simulation run this same code.
// docs/design/overlay.md says what it promises and why it keeps the promises.
//
// Memory: each link's sender has at most Options::window bytes in flight, so a member holds at most that for each
// child and Options::queue of its own, besides the data of open collective operations.
// Threads: one at a time.  Calls may be made from inside of Client's, not from inside of Port's.
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

using Nanoseconds = std::uint64_t;  ///< a time, or a duration; of one clock that never goes back
using Channel = std::uint64_t;      ///< a connection, as the Port numbers it
inline constexpr Channel kNone = 0;

/// The connections, as the Node needs them: frames arrive whole, once and in order while the connection lives.
class Port {
 public:
  virtual ~Port() = default;
  /// A connection to `member`, perhaps not there yet; kNone when that is known to be impossible.
  virtual Channel connect(Id member) = 0;
  /// A failure is told by Node::on_closed, later.
  virtual void send(Channel channel, std::string frame) = 0;
  /// The Node uses the channel no more; on_closed does not follow.
  virtual void close(Channel channel) = 0;
};

/// The user of the Node.
class Client {
 public:
  virtual ~Client() = default;
  /// At the root: a message of `origin`; each once, in the order of its sends.
  virtual void on_up(Id origin, std::uint16_t topic, ByteSpan content) = 0;
  /// Elsewhere: a message of the root; each once, in the order of its sends.
  virtual void on_down(std::uint16_t topic, ByteSpan content) = 0;
  /// A collective operation that this member takes part in has come to its end.
  virtual void on_release(const Release& release) = 0;
  /// Members that arrive at no operation with this key any more, though they may live: operations end without them and
  /// count them as lost.  A member of the set stays in it.  Other members may know it sooner or later, each calls
  /// Node::recheck() then.
  [[nodiscard]] virtual IdSet absent(const std::string& key) const = 0;
  /// That member counts as lost, everywhere and for good.  The root is told first, then all members.
  virtual void on_lost(Id member, Loss why) = 0;
  /// This member is out: it was found lost, or it finds no member above it.  Nothing follows.
  virtual void on_out(const char* why) = 0;
};

struct Options {
  Id self = 0;
  Id count = 1;
  unsigned radix = 16;
  Nanoseconds beat = 1'000'000'000;              ///< a neighbour hears something at least that often
  Nanoseconds silence_timeout = 10'000'000'000;  ///< of silence, until a neighbour counts as out of reach
  Nanoseconds grace = 2'000'000'000;    ///< out of reach, until it counts as lost, unless it attaches somewhere
  Nanoseconds start = 60'000'000'000;   ///< until a child must have attached for the first time
  Nanoseconds ack_delay = 250'000'000;  ///< until what has arrived is acknowledged, if it is little
  std::size_t window = 256U << 10;      ///< bytes in flight on a link
  std::size_t queue = 16U << 20;        ///< bytes of own messages that wait
  std::size_t keys = 256;               ///< of operations, that are remembered when nothing of them is open
};

class Node {
 public:
  /// The root waits for its children; any other member attaches to its parent.
  Node(const Options& options, Port& port, Client& client, Nanoseconds now);
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // --- What happens
  void on_frame(Channel from, ByteSpan bytes, Nanoseconds now);
  void on_closed(Channel channel, Nanoseconds now);
  void on_time(Nanoseconds now);
  /// When on_time() has something to do.
  [[nodiscard]] Nanoseconds deadline() const noexcept;

  // --- What is wanted; topics from kFirstUserTopic on
  /// Not at the root: a message for it.  Errors: limit_reached (Options::queue: later), peer_gone (this member is out).
  Result<void> send_up(std::uint16_t topic, std::string_view content);
  /// At the root: a message for some others.  Errors: limit_reached (they do not take what they were sent: later).
  Result<void> send_down(const IdSet& to, std::uint16_t topic, std::string_view content);
  /// This member arrives at the next operation with that key; ends with Client::on_release.
  void arrive(const std::string& key, const IdSet& participants, std::int64_t status, std::string data);
  /// At the root: that member is out, by other news.
  void declare_lost(Id member, Loss why, Nanoseconds now);
  /// Client::absent() has others to name.
  void recheck();
  /// Tells the neighbours now what has arrived here, instead of after Options::ack_delay.
  void acknowledge(Nanoseconds now);

  // --- To look at
  [[nodiscard]] const Tree& tree() const noexcept { return tree_; }
  [[nodiscard]] bool attached() const noexcept { return is_root() || state_ == State::attached; }
  [[nodiscard]] bool out() const noexcept { return state_ == State::out; }
  [[nodiscard]] Id parent() const noexcept { return parent_; }
  /// The children that are attached, and those that are waited for.
  [[nodiscard]] std::size_t children() const noexcept { return children_.size(); }
  [[nodiscard]] const IdSet& lost() const noexcept { return lost_; }
  /// The attached members below have all that the root sent them.
  [[nodiscard]] bool down_settled() const noexcept;
  /// What is sent now is not refused because others wait.
  [[nodiscard]] bool has_room() const noexcept { return (is_root() ? down_bytes_ : own_up_bytes_) <= options_.queue; }

 private:
  friend struct NodeProbe;  // of the tests
  enum class State : std::uint8_t { attaching, waiting, attached, out };
  using Body = std::shared_ptr<const std::string>;

  struct Child {
    Channel channel = kNone;
    std::uint32_t attach = 0;
    Range subtree;
    Loss missed = Loss::absent;     // no channel: why it is reported
    Nanoseconds due = 0;            // no channel: until it is reported; else: until it must have been heard of
    std::uint64_t up_received = 0;  // its messages
    std::size_t up_unacked = 0;     // bytes of them since the last acknowledgement
    std::uint64_t up_ackable = 0;
    std::uint64_t up_acked = 0;
    std::uint64_t down_sent = 0;  // numbers of the root
    std::uint64_t down_acked = 0;
    std::size_t down_flight = 0;  // bytes sent and not acknowledged
  };
  struct UpItem {
    Body body;
    Id child = 0;  // whose, and its number there; own messages: 0
    std::uint64_t child_number = 0;
  };
  struct DownItem {
    std::uint64_t number = 0;
    IdSet to;
    Body body;
  };

  /// Where a member was last attached.
  struct Place {
    std::uint32_t attach = 0;
    Id parent = 0;
  };

  [[nodiscard]] bool is_root() const noexcept { return options_.self == 0; }

  // attach.cpp: how members find their place and lose it
  void attach_to(Id member);
  void attach_failed();
  void refused_by(Id member);
  void lose_parent(bool silent);
  void leave(const char* why);
  void on_attach(Channel from, std::uint32_t attach, const Attach& message);
  void on_attached(const Attached& message);
  void on_refused(const Refused& message);
  void on_moved(Id member);
  Child& adopt(Id member, std::uint64_t down_acked, Nanoseconds due);
  void detach(Child& child, Loss why);
  void drop_child(Id member);
  void disinherit(Id lost, const Child& former);
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
  void enqueue_up(std::uint16_t topic, std::string_view content);
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
  void send_down_now(const IdSet& to, std::uint16_t topic, std::string_view content);
  void ack_later();
  void send_acks();
  void ack_parent();
  void ack_child(Child& child);
  [[nodiscard]] std::uint64_t down_ackable() const noexcept;

  // operations.cpp
  void on_contribution(Contribution contribution);
  [[nodiscard]] bool rename(Contribution& contribution) const;
  void forget(std::uint64_t number, const Forget& message);
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
  Nanoseconds parent_due_ = 0;  // attached: it must have been heard of; else the attempt ends
  Nanoseconds give_up_ = 0;     // not attached: then this member is out
  Nanoseconds beat_due_;
  Nanoseconds ack_due_ = UINT64_MAX;

  std::map<Id, Child> children_;  // attached ones, and those that are waited for
  std::map<Channel, Id> by_channel_;
  std::set<Id> moved_;  // tops of subtrees below here that have a parent further up
  IdSet lost_;

  std::deque<UpItem> up_;  // not acknowledged; their numbers are up_first_, +1, ...
  std::uint64_t up_first_ = 1;
  std::uint64_t up_sent_ = 0;  // the last number on this attachment
  std::size_t up_flight_ = 0;
  std::size_t own_up_bytes_ = 0;
  std::uint64_t own_sequence_ = 0;
  std::map<Id, std::uint64_t> heard_of_;  // root: the last sequence of each origin
  std::map<Id, Place> places_;            // root: of members that have left their first parent

  std::deque<DownItem> down_;        // not acknowledged by all that they concern
  std::uint64_t down_received_ = 0;  // the last number of the root's
  std::uint64_t down_acked_ = 0;     // told the parent
  std::size_t down_bytes_ = 0;
  std::size_t down_unacked_ = 0;  // bytes since the last acknowledgement

  Collectives collectives_;
  /// What others below may not have been told yet to forget, by the number of that message.
  std::deque<std::pair<std::uint64_t, Forget>> forgotten_;
};

}  // namespace runtime::overlay
