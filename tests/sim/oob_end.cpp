// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/oob_end.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace opal::test {

namespace oob = runtime::oob;

// Pieces of different borders on the two ways, as tcp and sm have them.
OobEnd::OobEnd(SimWorld& world) : world_(world), base_(world.add(*this, "5000")), better_(world.add(*this, "1700")) {
  EXPECT_TRUE(
      world_.context(base_).set_handler(oob::kActiveMessageTag, btl::bind<&OobEnd::on_piece>(*this, "oob end, base")));
  EXPECT_TRUE(world_.context(better_).set_handler(oob::kActiveMessageTag,
                                                  btl::bind<&OobEnd::on_better_piece>(*this, "oob end, better")));
}

void OobEnd::connect(const OobEnd& to) {
  const auto endpoint = world_.context(base_).connect(world_.context(to.base_).address());
  ASSERT_TRUE(endpoint);
  oob::Upgrader& ways = *this;
  connection_ = std::make_unique<oob::Connection>(**endpoint, oob::Connection::Role::asks, ways);
}

am::Endpoint* OobEnd::connect_upgrade(ByteSpan address, const am::Endpoint& /*base*/) {
  const auto endpoint = world_.context(better_).connect(address);
  return endpoint ? *endpoint : nullptr;
}

void OobEnd::send(std::uint64_t most) {
  if (connection_ == nullptr || !connection_->alive()) return;
  std::string content(world_.up_to(most), '\0');
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 31 + sent_.size());
  if (stream().send(oob::Topic::user, content)) sent_.push_back(std::move(content));
}

void OobEnd::turn() {
  for (am::Endpoint* endpoint : std::exchange(expelled_, {})) world_.context(better_).disconnect(*endpoint);
  if (connection_ == nullptr) return;
  if (connection_->needs_step()) connection_->step();
  if (std::exchange(last_way_, stream().current()) != stream().current()) ++changes_;
}

void OobEnd::on_piece(btl::Delivery& delivery) noexcept {
  am::Endpoint& from = am::sender(delivery);
  if (connection_ == nullptr) {
    oob::Upgrader& ways = *this;
    connection_ = std::make_unique<oob::Connection>(from, oob::Connection::Role::offers, ways);
  }
  receive(from, delivery.data);
}

void OobEnd::on_better_piece(btl::Delivery& delivery) noexcept {
  am::Endpoint& from = am::sender(delivery);
  if (&from == connection_->upgrade()) return receive(from, delivery.data);
  if (std::find(expelled_.begin(), expelled_.end(), &from) != expelled_.end()) return;
  const auto header = oob::read_header(delivery.data);
  oob::Note note;
  if (header && oob::Topic{header->topic} == oob::Topic::upgrade_hello &&
      read_object(delivery.data.subspan(sizeof *header), note) && connection_->expects(note)) {
    return connection_->on_upgrade_hello(from);
  }
  expelled_.push_back(&from);
}

void OobEnd::receive(am::Endpoint& from, ByteSpan piece) {
  const auto message = connection_->receive(from, piece);
  EXPECT_TRUE(message) << to_string(message.error());
  if (message && *message != nullptr) received_.emplace_back(oob::as_text((*message)->content));
}

}  // namespace opal::test
