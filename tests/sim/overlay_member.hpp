// SPDX-License-Identifier: Apache-2.0
// tests/sim/overlay_member.hpp — members of the tree of daemons over a simulated fabric: the Node, the out-of-band
// channel's pieces and Contexts are the runtime's own; only time, faults and wishes come from the test.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/oob/stream.hpp"
#include "runtime/overlay/node.hpp"
#include "tests/sim/world.hpp"

namespace opal::test {

using runtime::overlay::Channel;
using runtime::overlay::Id;

/// What all members of one tree share.
struct OverlayWorld {
  explicit OverlayWorld(const btl::sim::Config& config);
  SimWorld world;
  runtime::overlay::Options options;  ///< but for `self`
  std::vector<std::unique_ptr<class OverlayMember>> members;
  std::uint64_t frames = 0;
  std::uint64_t frame_bytes = 0;

  [[nodiscard]] std::uint64_t now() noexcept { return world.fabric().now_ns(); }
  /// Runs one event and the software after it; false when nothing is left to happen.
  bool step();
  void settle();
};

class OverlayMember final : private am::Observer, private runtime::overlay::Port {
 public:
  /// Its device is there; its Node comes with start().
  OverlayMember(OverlayWorld& shared, Id id);
  ~OverlayMember() override;

  void start(runtime::overlay::Client& client);
  [[nodiscard]] runtime::overlay::Node* node() noexcept { return node_ ? &*node_ : nullptr; }
  [[nodiscard]] bool alive() const noexcept { return alive_; }
  [[nodiscard]] bool stopped() const noexcept { return stopped_; }
  [[nodiscard]] btl::sim::NodeId device() const noexcept { return device_; }
  /// Its process stops for good.
  void crash(btl::sim::Crash how);
  /// Its process does nothing until it is continued; its device does.
  void stop() noexcept { stopped_ = true; }
  void go_on();
  /// Handles what has arrived, and what is due.
  void service();
  /// The Node was called from outside: its deadline may be another.
  void touched();
  std::uint64_t frames_sent = 0;
  std::uint64_t bytes_sent = 0;

 private:
  static constexpr Channel kDeaf = 1;  ///< to a host that has crashed

  struct Peer {
    explicit Peer(am::Endpoint& to) : endpoint(to), stream(std::make_unique<runtime::oob::Stream>(to)) {}
    am::Endpoint& endpoint;
    std::unique_ptr<runtime::oob::Stream> stream;  // a new one when the peer has
  };
  struct Arrival {
    Channel from;
    std::string frame;
    bool closed = false;
  };

  Channel connect(Id member) override;
  void send(Channel channel, std::string frame) override;
  void close(Channel channel) override;
  void on_peer_failed(am::Endpoint& endpoint, const Error& why) noexcept override;
  void on_piece(btl::Delivery& delivery) noexcept;
  Channel channel_of(am::Endpoint& endpoint);
  void forget(Channel channel);

  OverlayWorld& shared_;
  const Id id_;
  btl::sim::NodeId device_;
  std::vector<std::byte> address_;
  bool alive_ = true;
  bool silent_ = false;  // it crashed with its host
  bool stopped_ = false;
  std::map<Channel, Peer> peers_;  // numbered as they come: an order that a seed decides
  std::map<const am::Endpoint*, Channel> channels_;
  Channel last_channel_ = kDeaf;
  std::deque<Arrival> arrivals_;
  std::optional<runtime::overlay::Node> node_;
  std::uint64_t timer_ = UINT64_MAX;
};

}  // namespace opal::test
