// SPDX-License-Identifier: Apache-2.0
// tests/sim/oob_end.hpp — one end of a simulated out-of-band connection: an oob::Connection over two Contexts, as the
// runtime's daemons have them, which sends numbered messages and holds what it receives against what the other sent.
#pragma once
#include <string>
#include <vector>

#include "runtime/oob/connection.hpp"
#include "tests/sim/world.hpp"

namespace opal::test {

class OobEnd final : public am::Observer, private runtime::oob::Upgrader {
 public:
  explicit OobEnd(SimWorld& world);

  /// Begins the connection, of which this end asks for the better way.
  void connect(const OobEnd& to);
  /// Sends the next message, of at most `most` bytes; some are refused when too much waits.
  void send(std::uint64_t most);
  /// What a daemon's loop does between two turns of progress.
  void turn();

  [[nodiscard]] btl::sim::NodeId base_node() const noexcept { return base_; }
  [[nodiscard]] btl::sim::NodeId better_node() const noexcept { return better_; }
  [[nodiscard]] bool connected() const noexcept { return connection_ != nullptr; }
  [[nodiscard]] runtime::oob::Connection& connection() noexcept { return *connection_; }
  [[nodiscard]] bool on_better() const noexcept {
    return connection_ != nullptr && connection_->upgrade() != nullptr && connection_->upgrade() == stream().current();
  }
  [[nodiscard]] const std::vector<std::string>& sent() const noexcept { return sent_; }
  [[nodiscard]] const std::vector<std::string>& received() const noexcept { return received_; }
  [[nodiscard]] std::uint64_t changes() const noexcept { return changes_; }  ///< of the way in use

 private:
  [[nodiscard]] runtime::oob::Stream& stream() const noexcept { return connection_->stream(); }
  void on_piece(btl::Delivery& delivery) noexcept;
  void on_better_piece(btl::Delivery& delivery) noexcept;
  void receive(am::Endpoint& from, ByteSpan piece);
  // Upgrader
  ByteSpan upgrade_address() override { return world_.context(better_).address(); }
  am::Endpoint* connect_upgrade(ByteSpan address, const am::Endpoint& base) override;
  void disconnect_upgrade(am::Endpoint& endpoint) override { world_.context(better_).disconnect(endpoint); }

  SimWorld& world_;
  btl::sim::NodeId base_;
  btl::sim::NodeId better_;
  std::unique_ptr<runtime::oob::Connection> connection_;
  std::vector<am::Endpoint*> expelled_;
  std::vector<std::string> sent_;
  std::vector<std::string> received_;
  const am::Endpoint* last_way_ = nullptr;
  std::uint64_t changes_ = 0;
};

}  // namespace opal::test
