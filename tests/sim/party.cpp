// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/party.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

namespace opal::test {

Party::Party(SimWorld& world, std::vector<std::unique_ptr<Party>>& all)
    : world_(world), all_(all), node_(world.add(*this)) {
  am::Context& context = world_.context(node_);
  EXPECT_TRUE(context.set_handler(kTag, btl::bind<&Party::on_message>(*this, "party")));
  region_ = *context.register_memory(counters_, sizeof counters_, Rights::all);
  id_ = context.id();
  address_.assign(context.address().begin(), context.address().end());
}

Party::~Party() {
  if (!alive_) return;
  region_ = {};
  world_.remove(node_);
}

void Party::crash(btl::sim::Crash how) {
  world_.fabric().crash(node_, how);
  alive_ = false;
  region_ = {};
  world_.remove(node_);
}

Party::Peer* Party::find(const am::Endpoint& endpoint) noexcept {
  const auto found =
      std::find_if(peers_.begin(), peers_.end(), [&](auto& entry) { return entry.second.endpoint == &endpoint; });
  return found == peers_.end() ? nullptr : &found->second;
}

void Party::begin_life(Peer& peer, am::Endpoint& endpoint) noexcept {
  peer.endpoint = &endpoint;
  ++peer.life;
  peer.sent = 0;
  peer.lossless = true;
}

void Party::on_peer_connected(am::Endpoint& endpoint) noexcept {
  // It may have crashed since: what it sent before still arrives.
  const auto who =
      std::find_if(all_.begin(), all_.end(), [&](const auto& party) { return party->id_ == endpoint.peer(); });
  ASSERT_NE(who, all_.end());
  begin_life(peers_[(*who)->node()], endpoint);
}

void Party::on_peer_failed(am::Endpoint& endpoint, const Error& why) noexcept {
  Peer* peer = find(endpoint);
  ASSERT_NE(peer, nullptr);
  EXPECT_TRUE(peer->lossless) << "told twice";
  EXPECT_EQ(why.code, Errc::peer_gone);
  EXPECT_TRUE(endpoint.dead());
  EXPECT_EQ(endpoint.send_inline(kTag, {}, {}), Post::failed);
  peer->lossless = false;
  ++failures_;
}

void Party::on_message(btl::Delivery& delivery) noexcept {
  Message message{};
  ASSERT_TRUE(read_object(delivery.data, message));
  Peer& peer = peers_[message.sender];
  ASSERT_GE(message.life, peer.heard_life) << "a message of an earlier life after one of a later";
  if (message.life != peer.heard_life) {
    peer.heard_life = message.life;
    peer.heard = 0;
  }
  ASSERT_EQ(message.number, peer.heard) << "from " << message.sender << " to " << node_ << " in life " << message.life;
  ++peer.heard;
  ++messages_;
  ASSERT_EQ(delivery.data.size(), sizeof message + message.number % 300);
  const ByteSpan filling = delivery.data.subspan(sizeof message);
  const auto expected = static_cast<std::byte>(message.number);
  EXPECT_TRUE(std::all_of(filling.begin(), filling.end(), [&](std::byte byte) { return byte == expected; }));
}

void Party::connect(Party& to) {
  Peer& peer = peers_[to.node()];
  if (peer.endpoint != nullptr) return;
  if (auto endpoint = world_.context(node_).connect(to.address_); endpoint) {
    begin_life(peer, **endpoint);
  } else {
    EXPECT_FALSE(to.alive()) << to_string(endpoint.error());
  }
}

void Party::leave(Peer& peer) {
  peer.lossless = false;
  am::Endpoint& endpoint = *std::exchange(peer.endpoint, nullptr);
  world_.context(node_).disconnect(endpoint);
}

void Party::send(Peer& peer) {
  const Message message{node_, peer.life, peer.sent};
  const std::vector<std::byte> filling(message.number % 300, static_cast<std::byte>(message.number));
  Post post = Post::failed;
  switch (world_.up_to(2)) {
    case 0: post = peer.endpoint->send_inline(kTag, bytes_of(message), filling); break;
    case 1: post = peer.endpoint->send_or_queue(kTag, bytes_of(message), filling); break;
    default: {
      btl::Fragment fragment = peer.endpoint->alloc(sizeof message + filling.size());
      if (!fragment) {
        post = Post::again;
        break;
      }
      std::memcpy(fragment.data().data(), &message, sizeof message);
      std::copy(filling.begin(), filling.end(), fragment.data().begin() + sizeof message);
      post = peer.endpoint->send(fragment, kTag);
    }
  }
  EXPECT_NE(post, Post::queued);
  EXPECT_NE(post, Post::failed) << to_string(peer.endpoint->error());
  if (post == Post::done) ++peer.sent;
}

void Party::on_operation(Completion& self) noexcept {
  auto& operation = static_cast<Operation&>(self);
  ++operation.calls;
  Peer& peer = operation.party->peers_[operation.peer];
  ++(operation.ok() ? peer.added : peer.uncertain);
}

void Party::add(Party& to) {
  Peer& peer = peers_[to.node()];
  const Result<MemoryHandle> handle = peer.endpoint->unpack_key(to.region_.key());
  ASSERT_TRUE(handle);
  Operation& operation = operations_.emplace_back();
  operation.fn = &Party::on_operation;
  operation.party = this;
  operation.peer = to.node();
  const auto counter = reinterpret_cast<std::uint64_t>(&to.counters_[node_]);
  const Post post =
      peer.endpoint->atomic({AtomicOp::add, AtomicType::u64, counter, &*handle, 1, 0, nullptr}, operation);
  EXPECT_NE(post, Post::failed) << to_string(operation.error);
  operation.queued = post == Post::queued;
  if (post == Post::done) ++peer.added;
  if (post != Post::queued) operations_.pop_back();
}

void Party::act() {
  Party& other = *all_[world_.up_to(all_.size() - 1)];
  if (&other == this) return;
  Peer& peer = peers_[other.node()];
  if (peer.endpoint == nullptr) {
    if (other.alive()) connect(other);
    return;
  }
  if (!peer.lossless) {  // the endpoint failed: some time later we try again
    if (world_.chance(0.3)) leave(peer);
    return;
  }
  if (world_.chance(0.01)) return leave(peer);
  if (other.alive() && world_.chance(0.2)) return add(other);
  for (std::uint64_t burst = world_.chance(0.1) ? 100 : world_.up_to(3); burst > 0 && peer.lossless; --burst) {
    send(peer);
  }
}

void Party::check_end() const {
  for (const Operation& operation : operations_) EXPECT_EQ(operation.calls, 1);
  for (const auto& [node, peer] : peers_) {
    const Party& other = *all_[node];
    if (!other.alive()) continue;
    const auto theirs = other.peers_.find(node_);
    if (peer.endpoint != nullptr && peer.lossless && peer.sent != 0) {
      ASSERT_NE(theirs, other.peers_.end());
      EXPECT_EQ(theirs->second.heard_life, peer.life) << node_ << " to " << node;
      EXPECT_EQ(theirs->second.heard, peer.sent) << node_ << " to " << node << ": nothing failed, so all must arrive";
    }
    EXPECT_GE(other.counters_[node_], peer.added);
    EXPECT_LE(other.counters_[node_], peer.added + peer.uncertain);
  }
}

}  // namespace opal::test
