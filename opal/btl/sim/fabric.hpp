// SPDX-License-Identifier: Apache-2.0
// opal/btl/sim/fabric.hpp — a simulated network in one process: devices (nodes), connections, time, faults.
//
// Time is virtual: now_ns() moves from event to event.  On a fabric made from configuration the modules' progress()
// moves it; on a driven one only the caller of step() does, and next_ready() says whose progress() has something to do.
// One seed and the same calls give the same run.
// Packets of one connection and direction arrive in order; those of different ones overtake each other by the jitter.
// A lost packet is sent again after retry_ns, and those behind it wait (go-back-N); after `retries` the sender's device
// gives the peer up and its endpoint dies, as reliable connections of real devices do.  With reliable=false a lost
// message is gone instead.  Acknowledgements cost no time: the fabric knows.
// Threads: a fabric made from configuration is safe under modules used from different threads; a driven one, with all
// its modules, belongs to one thread.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "opal/btl/peer_id.hpp"
#include "opal/btl/sim/config.hpp"
#include "opal/btl/sim/event_queue.hpp"
#include "opal/btl/sim/memory/memory_unit.hpp"
#include "opal/btl/sim/memory/pages.hpp"
#include "opal/btl/sim/node.hpp"
#include "opal/btl/sim/packet.hpp"
#include "opal/btl/sim/random.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"

namespace opal::btl::sim {

struct FabricStatistics {
  std::uint64_t events = 0;
  std::uint64_t messages = 0;       ///< active messages that reached their device
  std::uint64_t message_bytes = 0;  ///< of them
  std::uint64_t transfers = 0;      ///< puts, gets and atomics served
  std::uint64_t lost = 0;           ///< packets lost on the way, to a partition or to a silent node
  std::uint64_t given_up = 0;       ///< connections that ran out of retries
  std::uint64_t resets = 0;         ///< packets for an endpoint or node that is no more
};

/// What the next step() does.
struct NextEvent {
  std::uint64_t time_ns;
  Packet::Kind kind;
  Tag tag;  ///< of a message
};

/// What is in use; all 0 once every module has ended and nothing is in flight.
struct FabricUse {
  std::uint64_t nodes = 0;
  std::uint64_t links = 0;
  std::uint64_t packets = 0;
  friend bool operator==(const FabricUse&, const FabricUse&) = default;
};

/// How a node stops.
enum class Crash : std::uint8_t {
  process,  ///< its device lives on and tells peers at once
  host,     ///< silence: peers find out when they send
  device,   ///< the same, and the host goes on: its software sees every connection break
};

class OPAL_EXPORT Fabric {
 public:
  /// The fabric of config.fabric's name, made (not driven) if there is none.  Exists as long as it is referenced.
  static std::shared_ptr<Fabric> attach(const Config& config);
  /// A driven fabric; modules of that name plug in.  Errors: invalid_argument (the name is in use).
  static Result<std::shared_ptr<Fabric>> drive(const Config& config);
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  // --- For the driver

  [[nodiscard]] std::uint64_t now_ns() const noexcept { return now_; }
  /// Runs the next event; false when there is none.
  bool step() noexcept;
  /// Nothing when nothing is left to happen.
  [[nodiscard]] std::optional<NextEvent> next_event() const noexcept;
  /// A node whose progress() has something to do, each once; false when there is none.
  bool next_ready(NodeId& node) noexcept;
  /// Calls `what` at that time (now, if it is past), from step().
  void at(std::uint64_t time_ns, std::function<void()> what);

  // --- Faults

  /// From now on the node neither sends nor receives, and registers no memory.
  void crash(NodeId node, Crash how) noexcept;
  /// Nodes of different groups no longer reach each other; every node starts in group 0.
  void set_group(NodeId node, std::uint32_t group) noexcept;
  void heal() noexcept;  ///< all nodes in one group again
  void set_loss(double probability) noexcept;

  [[nodiscard]] FabricStatistics statistics() const noexcept;
  [[nodiscard]] FabricUse use() const noexcept;
  [[nodiscard]] const Config& config() const noexcept { return config_; }
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  /// Randomness for the driver of the fabric, from the same seed.
  [[nodiscard]] Random& random() noexcept { return random_; }

  // --- For modules

  /// Plugs a device in.  `config` describes the device.
  Node& plug(const Config& config);
  void unplug(Node& node) noexcept;
  /// Whether that node is there to be connected to.
  [[nodiscard]] bool knows(NodeId node) noexcept;

  Link& open_link(Node& from, NodeId to, Endpoint& sender);
  /// The sender's operations have ended: its transfers in flight touch no memory any more.
  void close_transfers(Link& link) noexcept;
  /// The sender's endpoint ends; what it sent is still delivered, transfers are not.
  void close_sender(Link& link) noexcept;
  /// This endpoint receives what arrives on the link, until close_receiver().
  void open_receiver(Link& link, Endpoint& receiver) noexcept;
  void close_receiver(Link& link) noexcept;

  Packet& make(Packet::Kind kind, std::size_t size);
  void discard(Packet& packet) noexcept;
  /// Sends a packet.  Messages beyond the link's window: false, and it stays the caller's.
  [[nodiscard]] bool send(Link& link, Packet& packet) noexcept;
  /// Tells the sender of the packet's link that its receiver is gone.
  void reset(const Packet& packet) noexcept;
  /// The next thing for this node's software; null when there is none.  Where the fabric is not driven, runs events
  /// until there is, at most `budget`, which it counts down.
  Packet* receive(Node& node, std::size_t& budget) noexcept;

  /// True when the node may sleep on its doorbell.
  bool arm(Node& node) noexcept;
  int doorbell(Node& node) noexcept;
  /// The node's processor is busy for that long: what it sends comes later.
  void spend(Node& node, std::uint64_t ns) noexcept;

 private:
  Fabric(const Config& config, bool driven);
  /// Held where several threads may come; nothing on a driven fabric.
  [[nodiscard]] std::unique_lock<std::mutex> guard() const noexcept {
    return driven_ ? std::unique_lock{mutex_, std::defer_lock} : std::unique_lock{mutex_};
  }

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
  const std::uint64_t id_;  // tells an address of another fabric or process
  const double ns_per_byte_;
  mutable std::mutex mutex_;
  Random random_;
  double loss_;
  std::uint64_t now_ = 0;
  EventQueue events_;
  PacketPool packets_;
  Pages pages_;
  std::vector<std::unique_ptr<Node>> nodes_;  // by id; null after unplug
  std::vector<bool> silent_;                  // by id: the host has crashed; also after unplug
  std::vector<NodeId> ready_;                 // driven only; first in, first out from ready_head_
  std::size_t ready_head_ = 0;
  std::vector<std::function<void()>> timers_;
  std::vector<std::uint32_t> free_timers_;
  std::vector<std::unique_ptr<Link>> links_;  // all; owned here, found through endpoints and packets
  std::vector<Link*> free_links_;
  std::uint64_t next_link_ = 1;
  std::vector<std::byte> bounce_;  // a device's own memory, between two programs' pages
  FabricStatistics statistics_;
};

}  // namespace opal::btl::sim
