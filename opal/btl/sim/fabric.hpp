// SPDX-License-Identifier: Apache-2.0
// opal/btl/sim/fabric.hpp — a simulated network in one process: devices (nodes), connections, time, faults.
//
// Time is virtual: now_ns() advances from event to event.  Two kinds of fabric:
//   attached  made by attach(); the modules' progress() advances time.  step() and the functions that modules call are
//             thread-safe.
//   driven    made by drive(); only step() advances time, and next_ready() names the nodes whose progress() has work.
//             One thread uses it and all its modules.  The same seed and the same calls give the same run.
// Packets of one connection and direction arrive in order; with jitter, answers and packets of different connections
// overtake each other.
// A lost packet is sent again after retry_ns, and the packets behind it wait (go-back-N).  After `retries` the endpoint
// of the sender dies, as on a reliable connection of a real device.  With reliable=false a lost message never arrives.
// Acknowledgements are not simulated: the fabric knows which packets are lost.
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <queue>
#include <string>
#include <unordered_map>
#include <vector>

#include "opal/btl/peer_id.hpp"
#include "opal/btl/sim/config.hpp"
#include "opal/btl/sim/node.hpp"
#include "opal/btl/sim/packet.hpp"
#include "opal/btl/sim/random.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"

namespace opal::btl::sim {

struct FabricStatistics {
  std::uint64_t events = 0;
  std::uint64_t messages = 0;   ///< active messages that reached their device
  std::uint64_t transfers = 0;  ///< puts, gets and atomics served
  std::uint64_t lost = 0;       ///< losses of packets, also of retransmissions
  std::uint64_t given_up = 0;   ///< connections that ran out of retries
  std::uint64_t resets = 0;     ///< packets that were refused since the endpoint or node does not exist
  std::uint64_t faults = 0;     ///< transfers that a device refused: stale, out of bounds, without the right, unmapped
};

/// The event that the next step() runs.
struct NextEvent {
  std::uint64_t time_ns;
  Packet::Kind kind;
  Tag tag;  ///< of a message; else 0
};

/// Objects in use.  All are 0 once every module has ended and no packet is in flight.
struct FabricUse {
  std::uint64_t nodes = 0;
  std::uint64_t links = 0;
  std::uint64_t packets = 0;
  friend bool operator==(const FabricUse&, const FabricUse&) = default;
};

/// How a node stops.
enum class Crash : std::uint8_t {
  process,  ///< the process ends; the device resets its connections, so peers are notified after the latency
  host,     ///< the node is silent; a peer notices when its packets run out of retries
  device,   ///< the device is silent; its software goes on and sees every connection break
};

class OPAL_EXPORT Fabric {
 public:
  /// Returns the fabric named config.fabric, driven or not; makes one that is not driven if there is none.
  /// The fabric ends with the last reference to it.
  static std::shared_ptr<Fabric> attach(const Config& config);
  /// Makes a driven fabric named config.fabric, which modules find by attach().
  /// Errors: invalid_argument (a fabric of that name exists).
  static Result<std::shared_ptr<Fabric>> drive(const Config& config);
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  // --- For the program that drives the fabric

  [[nodiscard]] std::uint64_t now_ns() const noexcept { return now_; }
  /// Runs the next event and advances now_ns() to its time.  False: there is none.
  bool step() noexcept;
  /// The event that the next step() runs; nullopt: there is none.
  [[nodiscard]] std::optional<NextEvent> next_event() const noexcept;
  /// Sets `node` to the next node whose progress() has work, and takes it off the list.  False: there is none.
  bool next_ready(NodeId& node) noexcept;
  /// Makes step() call `what` at `time_ns`, or as the next event if that time is past.  Requires: a driven fabric.
  void at(std::uint64_t time_ns, std::function<void()> what);

  // --- Faults

  /// Stops a node: it neither sends nor receives, and registers no memory.
  void crash(NodeId node, Crash how) noexcept;
  /// Moves the node to a group.  Packets between groups are lost.  Every node starts in group 0.
  void set_group(NodeId node, std::uint32_t group) noexcept;
  void heal() noexcept;  ///< moves all nodes to group 0
  void set_loss(double probability) noexcept;

  [[nodiscard]] FabricStatistics statistics() const noexcept;
  [[nodiscard]] FabricUse use() const noexcept;
  [[nodiscard]] const Config& config() const noexcept { return config_; }
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  /// The random numbers of the fabric, also for the program that drives it.
  [[nodiscard]] Random& random() noexcept { return random_; }

  // --- For modules

  /// Adds a device, which `config` describes.  The fabric owns the Node; it is valid until unplug().
  Node& plug(const Config& config, const RegistrationTable& registrations);
  void unplug(Node& node) noexcept;
  /// True while a device with this id is plugged in.
  [[nodiscard]] bool knows(NodeId node) noexcept;

  /// Opens one direction of a connection.  The fabric owns the Link; it is valid until close_sender().
  Link& open_link(Node& from, NodeId to, Endpoint& sender);
  /// Stops the transfers in flight on the link: they access no memory from now on.
  void close_transfers(Link& link) noexcept;
  /// Makes next_ready() name the node: its software has work that came with no packet.
  void make_ready(Node& node) noexcept {
    const auto lock = guard();
    ready_locked(node);
  }
  /// Ends the sender's use of the link.  Messages in flight are still delivered; transfers are dropped.
  void close_sender(Link& link) noexcept;
  /// Makes `receiver` the endpoint for packets of the link, until close_receiver().
  void open_receiver(Link& link, Endpoint& receiver) noexcept;
  void close_receiver(Link& link) noexcept;

  /// Makes a packet with `size` bytes of payload.  The caller ends its use by send() or discard().
  Packet& make(Packet::Kind kind, std::size_t size);
  void discard(Packet& packet) noexcept;
  /// False: the link's window is full, so no message may be sent.  The sending node gets ready when a message of the
  /// link was handled.
  [[nodiscard]] bool has_room(Link& link) noexcept;
  /// Sends a packet; the fabric takes it.  Requires for a message: has_room().
  void send(Link& link, Packet& packet) noexcept;
  /// Sends a failure packet to the sender of the packet's link: the receiver does not exist.
  void reset(const Packet& packet) noexcept;
  /// Returns the next packet for this node's software, which discards it after use; null: there is none.
  /// If the fabric is not driven, runs events until there is one, at most `budget`, and subtracts their number from it.
  Packet* receive(Node& node, std::size_t& budget) noexcept;

  /// Arms the doorbell.  False: there is work, so the node's software must not sleep.
  bool arm(Node& node) noexcept;
  /// The eventfd of the node, made by the first call; the fabric owns it.
  int doorbell(Node& node) noexcept;
  /// Returns when no device, in a progress() of another thread, accesses memory that was deregistered before.
  void wait_for_accesses() noexcept { const auto lock = guard(); }
  /// Adds `ns` of processor time to the node: its next packets leave later.
  void spend(Node& node, std::uint64_t ns) noexcept;

 private:
  Fabric(const Config& config, bool driven);
  /// Locks the fabric, unless it is driven.
  [[nodiscard]] std::unique_lock<std::mutex> guard() const noexcept {
    return driven_ ? std::unique_lock{mutex_, std::defer_lock} : std::unique_lock{mutex_};
  }

  struct Event {
    std::uint64_t time;  // simulated, in ns
    std::uint64_t age;   // number of the event: events of the same time run in its order, so a run repeats exactly
    Packet* packet;
    /// For the priority queue, whose first element is the largest.
    friend bool operator<(const Event& a, const Event& b) noexcept {
      return a.time != b.time ? a.time > b.time : a.age > b.age;
    }
  };
  void schedule(std::uint64_t time, Packet& packet) { events_.push({time, next_event_++, &packet}); }
  /// Queues an event again for `time`, with its old number.
  void put_off(const Event& event, std::uint64_t time) { events_.push({time, event.age, event.packet}); }

  bool step_locked() noexcept;
  void arrive_locked(const Event& event) noexcept;
  void lose_locked(const Event& event) noexcept;
  void serve_locked(Packet& packet) noexcept;
  void deliver_locked(Node& node, Packet& packet) noexcept;
  void reset_locked(Link& link) noexcept;
  void break_locked(Link& link, Node& from) noexcept;
  void discard_locked(Packet& packet) noexcept;
  void ready_locked(Node& node) noexcept;
  void release_locked(Link& link) noexcept;
  [[nodiscard]] bool cut_locked(const Link& link) const noexcept;
  [[nodiscard]] Node* node_locked(NodeId id) const noexcept { return id < nodes_.size() ? nodes_[id].get() : nullptr; }
  [[nodiscard]] std::uint64_t wire_ns(std::uint64_t bytes) const noexcept;
  [[nodiscard]] std::uint64_t travel_ns() noexcept;

  const Config config_;
  const bool driven_;
  const std::uint64_t id_;  // random; in addresses, to detect one of another fabric or process
  const double ns_per_byte_;
  mutable std::mutex mutex_;
  Random random_;
  double loss_;
  std::uint64_t now_ = 0;
  std::priority_queue<Event> events_;
  std::uint64_t next_event_ = 0;
  PacketPool packets_;
  std::vector<std::unique_ptr<Node>> nodes_;  // by id; null after unplug
  std::vector<bool> silent_;                  // by id: crashed as host or device; kept after unplug
  std::deque<NodeId> ready_;                  // driven only: for next_ready()
  std::unordered_map<std::uint64_t, std::function<void()>> timers_;  // by Event::age
  std::vector<std::unique_ptr<Link>> links_;                         // open and free ones
  std::vector<Link*> free_links_;
  std::uint64_t next_link_ = 1;
  FabricStatistics statistics_;
};

}  // namespace opal::btl::sim
