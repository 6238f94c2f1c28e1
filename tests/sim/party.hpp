// SPDX-License-Identifier: Apache-2.0
// tests/sim/party.hpp — one process of a simulation: a Context that sends numbered messages and adds to counters of its
// peers, and holds what it sees against what a Context promises:
//   * what arrives from one peer over one life of its endpoint is what it sent, in order, from the first, without gaps
//     or repetitions; only the end may be missing, and only when an endpoint failed or was disconnected;
//   * a failure is told once per life, and posts on the dead endpoint answer `failed`;
//   * a queued operation completes exactly once; an atomic that succeeded was executed once.
#pragma once
#include <deque>
#include <map>
#include <vector>

#include "tests/sim/world.hpp"

namespace opal::test {

class Party final : public am::Observer {
 public:
  static constexpr Tag kTag = kUserTags.first;

  Party(SimWorld& world, std::vector<std::unique_ptr<Party>>& all);
  ~Party() override;

  [[nodiscard]] btl::sim::NodeId node() const noexcept { return node_; }
  [[nodiscard]] bool alive() const noexcept { return alive_; }
  [[nodiscard]] std::uint64_t messages() const noexcept { return messages_; }
  [[nodiscard]] std::uint64_t failures() const noexcept { return failures_; }

  /// Does something by chance: sends to a peer, adds to a peer's counter, mends or ends a connection.
  void act();
  /// Its process stops.
  void crash(btl::sim::Crash how);
  /// At the end, with nothing under way: all that was promised has happened.
  void check_end() const;

 private:
  struct Message {
    std::uint32_t sender;
    std::uint32_t life;  // of the sender's endpoint
    std::uint64_t number;
  };
  /// What we know of our endpoint to one peer.
  struct Peer {
    am::Endpoint* endpoint = nullptr;
    std::uint32_t life = 0;        // new with every connection
    std::uint64_t sent = 0;        // messages in this life
    bool lossless = true;          // this life has not failed and was not ended
    std::uint64_t added = 0;       // atomics that succeeded, in all lives
    std::uint64_t uncertain = 0;   // and that failed: executed or not
    std::uint32_t heard_life = 0;  // of the peer's endpoint to us
    std::uint64_t heard = 0;       // messages in that life
  };
  struct Operation : Completion {
    Party* party = nullptr;
    btl::sim::NodeId peer = 0;
    int calls = 0;
    bool queued = false;
  };

  void on_peer_connected(am::Endpoint& endpoint) noexcept override;
  void on_peer_failed(am::Endpoint& endpoint, const Error& why) noexcept override;
  void on_message(btl::Delivery& delivery) noexcept;
  static void on_operation(Completion& self) noexcept;

  void begin_life(Peer& peer, am::Endpoint& endpoint) noexcept;
  void connect(Party& to);
  void leave(Peer& peer);
  void send(Peer& peer);
  void add(Party& to);
  [[nodiscard]] Peer* find(const am::Endpoint& endpoint) noexcept;

  SimWorld& world_;
  std::vector<std::unique_ptr<Party>>& all_;
  btl::sim::NodeId node_;
  bool alive_ = true;
  PeerId id_;
  std::vector<std::byte> address_;
  // One for each peer to add to.  Aligned: a registration costs time for each page that it touches, and a run must not
  // depend on where the heap puts us.
  alignas(128) std::uint64_t counters_[16] = {};
  am::Region region_;
  std::map<btl::sim::NodeId, Peer> peers_;
  std::deque<Operation> operations_;
  std::uint64_t messages_ = 0;
  std::uint64_t failures_ = 0;
};

}  // namespace opal::test
