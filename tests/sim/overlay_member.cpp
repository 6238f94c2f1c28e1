// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/overlay_member.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace opal::test {

OverlayWorld::OverlayWorld(const btl::sim::Config& config) : world(config) {}

bool OverlayWorld::step() {
  settle();
  if (!world.fabric().step()) return false;
  settle();
  return true;
}

void OverlayWorld::settle() {
  btl::sim::NodeId device = 0;
  while (world.fabric().next_ready(device)) members[device]->service();
}

OverlayMember::OverlayMember(OverlayWorld& shared, Id id) : shared_(shared), id_(id), device_(shared.world.add(*this)) {
  am::Context& context = shared_.world.context(device_);
  EXPECT_TRUE(context.set_handler(runtime::oob::kActiveMessageTag,
                                  btl::bind<&OverlayMember::on_piece>(*this, "overlay member")));
  address_.assign(context.address().begin(), context.address().end());
}

OverlayMember::~OverlayMember() {
  node_.reset();
  peers_.clear();
  if (alive_) shared_.world.remove(device_);
}

void OverlayMember::start(runtime::overlay::Client& client) {
  runtime::overlay::Options options = shared_.options;
  options.self = id_;
  runtime::overlay::Port& port = *this;
  node_.emplace(options, port, client, shared_.now());
  touched();
}

void OverlayMember::crash(btl::sim::Crash how) {
  shared_.world.fabric().crash(device_, how);
  alive_ = false;
  silent_ = how == btl::sim::Crash::host;
  arrivals_.clear();
  peers_.clear();
  channels_.clear();
  shared_.world.remove(device_);
}

void OverlayMember::go_on() {
  stopped_ = false;
  service();
}

void OverlayMember::service() {
  if (!alive_ || stopped_) return;
  am::Context& context = shared_.world.context(device_);
  bool busy = true;
  while (busy) {
    busy = context.progress() != 0;
    while (!arrivals_.empty()) {
      busy = true;
      const Arrival arrival = std::move(arrivals_.front());
      arrivals_.pop_front();
      if (!arrival.closed) {
        if (node_) node_->on_frame(arrival.from, as_bytes(std::span{arrival.frame}), shared_.now());
        continue;
      }
      if (!peers_.contains(arrival.from)) continue;
      forget(arrival.from);
      if (node_) node_->on_closed(arrival.from, shared_.now());
    }
  }
  touched();
}

void OverlayMember::touched() {
  if (!alive_ || stopped_ || !node_) return;
  const std::uint64_t due = std::max(node_->deadline(), shared_.now() + 1);
  if (node_->deadline() == UINT64_MAX || due >= timer_) return;
  timer_ = due;
  shared_.world.fabric().at(due, [this, due] {
    if (timer_ == due) timer_ = UINT64_MAX;
    if (!alive_ || stopped_) return;
    if (node_->deadline() <= shared_.now()) node_->on_time(shared_.now());
    service();
  });
}

Channel OverlayMember::channel_of(am::Endpoint& endpoint) {
  const auto [entry, is_new] = channels_.try_emplace(&endpoint, last_channel_ + 1);
  if (is_new) peers_.try_emplace(++last_channel_, endpoint);
  return entry->second;
}

/// Not from inside progress().
void OverlayMember::forget(Channel channel) {
  am::Endpoint& endpoint = peers_.at(channel).endpoint;
  peers_.erase(channel);
  channels_.erase(&endpoint);
  shared_.world.context(device_).disconnect(endpoint);
}

Channel OverlayMember::connect(Id member) {
  const OverlayMember& other = *shared_.members[member];
  if (!other.alive_) return other.silent_ ? kDeaf : runtime::overlay::kNone;
  const auto endpoint = shared_.world.context(device_).connect(other.address_);
  if (!endpoint || (*endpoint)->dead()) return runtime::overlay::kNone;
  return channel_of(**endpoint);
}

void OverlayMember::send(Channel channel, std::string frame) {
  const auto peer = peers_.find(channel);
  if (peer == peers_.end()) return;
  ++shared_.frames;
  ++frames_sent;
  shared_.frame_bytes += frame.size();
  bytes_sent += frame.size();
  const auto sent = peer->second.stream->send(runtime::oob::Topic::user, std::move(frame));
  if (!sent) arrivals_.push_back({channel, {}, true});
}

void OverlayMember::close(Channel channel) {
  if (!peers_.contains(channel)) return;
  std::erase_if(arrivals_, [&](const Arrival& each) { return each.from == channel; });
  forget(channel);
}

void OverlayMember::on_peer_failed(am::Endpoint& endpoint, const Error&) noexcept {
  arrivals_.push_back({channel_of(endpoint), {}, true});
}

void OverlayMember::on_piece(btl::Delivery& delivery) noexcept {
  const Channel channel = channel_of(am::sender(delivery));
  Peer& peer = peers_.at(channel);
  if (peer.stream->is_from_another_incarnation(delivery.data)) {
    peer.stream = std::make_unique<runtime::oob::Stream>(peer.endpoint);
  }
  const auto message = peer.stream->receive(delivery.data);
  ASSERT_TRUE(message) << to_string(message.error());
  if (*message != nullptr) {
    arrivals_.push_back({channel, std::string{runtime::oob::as_text((*message)->content)}, false});
  }
}

}  // namespace opal::test
