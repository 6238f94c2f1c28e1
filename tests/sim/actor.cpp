// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/actor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace opal::test {
namespace {

constexpr Tag kMessage = kUserTags.first;
constexpr Tag kOffer = kUserTags.first + 1;
constexpr Tag kTaken = kUserTags.first + 2;
constexpr std::byte kPoison{0xee};
constexpr std::size_t kPage = 4096;  // counters are in the first of each window

std::size_t pages(std::uint64_t size) { return (static_cast<std::size_t>(size) + kPage - 1) / kPage * kPage; }

std::uint64_t word(std::uint64_t name, std::uint64_t index) { return (name << 32) + index + 1; }

void fill(std::byte* at, std::uint64_t size, std::uint64_t name) {
  for (std::uint64_t i = 0; i < size / 8; ++i) {
    const std::uint64_t value = word(name, i);
    std::memcpy(at + i * 8, &value, 8);
  }
}

/// How many of the words are those that fill() has written; `others`: how many are neither these nor zero.
std::uint64_t count(const std::byte* at, std::uint64_t size, std::uint64_t name, std::uint64_t& others) {
  std::uint64_t same = 0;
  for (std::uint64_t i = 0; i < size / 8; ++i) {
    std::uint64_t value = 0;
    std::memcpy(&value, at + i * 8, 8);
    if (value == word(name, i))
      ++same;
    else if (value != 0)
      ++others;
  }
  return same;
}

bool all_poison(const std::byte* at, std::uint64_t size) {
  return size == 0 || (at[0] == kPoison && std::memcmp(at, at + 1, size - 1) == 0);
}

}  // namespace

Actor::Actor(Shared& shared, std::size_t index, ActorMemory& memory, const config::Store& settings)
    : shared_(shared), index_(static_cast<std::uint32_t>(index)), memory_(memory) {
  EXPECT_EQ(shared_.world.add(*this, "64K", settings), index_);
  shared_.actors[index_] = this;
  shared_.window_used[index_] = kPage;
  std::memset(memory_.window.data(), 0, kPage);
  EXPECT_TRUE(context().set_handler(kMessage, btl::bind<&Actor::on_message>(*this, "message")));
  EXPECT_TRUE(context().set_handler(kOffer, btl::bind<&Actor::on_offer>(*this, "offer")));
  EXPECT_TRUE(context().set_handler(kTaken, btl::bind<&Actor::on_taken>(*this, "taken")));
  region_ = *context().register_memory(memory_.window.data(), memory_.window.size(), Rights::all);
  key_.assign(region_.key().begin(), region_.key().end());
  id_ = context().id();
  address_.assign(context().address().begin(), context().address().end());
}

Actor::~Actor() {
  if (alive_) end();
}

// --- Peers

void Actor::begin_life(Peer& peer, am::Endpoint& endpoint) noexcept {
  if (peer.endpoint != nullptr) former_.push_back(peer.endpoint);
  peer.endpoint = &endpoint;
  peer.failed = false;
  ++peer.life;
  peer.sent = 0;
  peer.heard_here = 0;
}

void Actor::on_peer_connected(am::Endpoint& endpoint) noexcept {
  const auto who = std::find_if(shared_.actors.begin(), shared_.actors.end(),
                                [&](const Actor* actor) { return actor->id_ == endpoint.peer(); });
  ASSERT_NE(who, shared_.actors.end());
  Peer& peer = peers_[(*who)->index_];
  EXPECT_TRUE(peer.endpoint == nullptr || peer.failed) << "a second endpoint to a peer that has not failed";
  begin_life(peer, endpoint);
}

void Actor::on_peer_failed(am::Endpoint& endpoint, const Error& why) noexcept {
  const auto peer =
      std::find_if(peers_.begin(), peers_.end(), [&](const Peer& each) { return each.endpoint == &endpoint; });
  ASSERT_NE(peer, peers_.end()) << "news of an endpoint that is not ours any more";
  EXPECT_FALSE(peer->failed) << "told twice";
  EXPECT_EQ(why.code, Errc::peer_gone) << to_string(why);
  EXPECT_TRUE(endpoint.dead());
  EXPECT_EQ(endpoint.send_inline(kMessage, {}, {}), Post::failed);
  peer->failed = true;
  ++failures_;
  const auto who = static_cast<std::uint32_t>(peer - peers_.begin());
  for (const Operation& operation : operations_) {
    EXPECT_TRUE(operation.peer != who || !operation.queued || operation.calls == 1) << "pending on a failed endpoint";
  }
  for (auto& offer : offers_) {
    if (offer && offer->to == who) offer.reset();
  }
  note(0xf0000000U + who);
  shared_.last_end_ns = shared_.world.now_ns();
}

void Actor::drop(Peer& peer) {
  if (peer.endpoint == nullptr) return;
  context().disconnect(*std::exchange(peer.endpoint, nullptr));
  peer.failed = false;
}

void Actor::connect(Actor& to) {
  then([this, &to] {
    if (peer(to).endpoint == nullptr) reconnect(to);
    return true;
  });
}

void Actor::reconnect(Actor& to) {
  if (reaches(to) || !to.alive() || shared_.without_device == index_) return;
  drop(peer(to));
  auto endpoint = context().connect(to.address_);
  ASSERT_TRUE(endpoint) << to_string(endpoint.error());
  begin_life(peer(to), **endpoint);
}

void Actor::await_peer(Actor& from) {
  then([this, &from] { return peer(from).endpoint != nullptr || shared_.gave_up; });
}

void Actor::await_failure(Actor& of) {
  then([this, &of] { return shared_.gave_up || !reaches(of); });
}

void Actor::meet() {
  then([this] {
    ++stage_;
    return true;
  });
  then([this] { return shared_.gave_up || all_at(stage_); });
}

void Actor::leave(Actor& to) {
  then([this, &to] {
    drop(peer(to));
    return true;
  });
}

bool Actor::works(const Actor& to) const noexcept {
  const Peer& peer = peers_[to.index_];
  return peer.endpoint != nullptr && !peer.failed;
}

// --- Messages

Post Actor::send_now(Peer& peer, std::size_t bytes, bool may_queue) {
  const Message message{index_, peer.life, peer.sent};
  const std::vector<std::byte> filling(bytes, static_cast<std::byte>(message.number));
  const Post post = may_queue ? peer.endpoint->send_or_queue(kMessage, bytes_of(message), filling)
                              : peer.endpoint->send_inline(kMessage, bytes_of(message), filling);
  EXPECT_NE(post, Post::queued);
  EXPECT_NE(post, Post::failed) << to_string(peer.endpoint->error());
  if (post == Post::done) ++peer.sent;
  return post;
}

void Actor::send(Actor& to, std::size_t count) {
  then([this, &to, left = count]() mutable {
    while (left > 0 && reaches(to)) {
      if (send_now(peer(to), left % 300, false) != Post::done) return false;
      --left;
    }
    return true;
  });
}

void Actor::send_fragment(Actor& to, std::size_t bytes) {
  then([this, &to, bytes] {
    if (!reaches(to)) return true;
    Peer& peer = this->peer(to);
    const Message message{index_, peer.life, peer.sent};
    btl::Fragment fragment = peer.endpoint->alloc(sizeof message + bytes);
    if (!fragment) return false;
    std::memcpy(fragment.data().data(), &message, sizeof message);
    std::memset(fragment.data().data() + sizeof message, static_cast<int>(message.number & 0xff), bytes);
    const Post post = peer.endpoint->send(fragment, kMessage);
    EXPECT_TRUE(post == Post::done || post == Post::again);
    if (post == Post::done) ++peer.sent;
    return post == Post::done;
  });
}

void Actor::queue(Actor& to, std::size_t count, std::size_t bytes) {
  then([this, &to, count, bytes] {
    for (std::size_t i = 0; i < count && reaches(to); ++i) EXPECT_EQ(send_now(peer(to), bytes, true), Post::done);
    return true;
  });
}

void Actor::say(Actor& to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(send_now(peer(to), 8, true), Post::done);
}

void Actor::probe() {
  for (Actor* other : shared_.actors) {
    if (other != this && reaches(*other)) say(*other, 1);
  }
}

void Actor::await(Actor& from, std::uint64_t count) {
  then([this, &from, count] { return shared_.gave_up || !reaches(from) || peer(from).heard_here >= count; });
}

void Actor::on_message(btl::Delivery& delivery) noexcept {
  Message message{};
  ASSERT_TRUE(read_object(delivery.data, message));
  Peer& peer = peers_.at(message.sender);
  ASSERT_GE(message.life, peer.heard_life) << "a message of an earlier life after one of a later";
  if (message.life != peer.heard_life) {
    peer.heard_life = message.life;
    peer.heard = 0;
  }
  ASSERT_EQ(message.number, peer.heard) << "from " << message.sender << " to " << index_;
  ++peer.heard;
  ++peer.heard_here;
  ++messages_;
  const ByteSpan filling = delivery.data.subspan(sizeof message);
  const auto expected = static_cast<std::byte>(message.number);
  EXPECT_TRUE(std::all_of(filling.begin(), filling.end(), [&](std::byte byte) { return byte == expected; }));
  shared_.last_end_ns = shared_.world.now_ns();
  note(0xa0000000U + message.sender * 0x10000U + message.number);
}

// --- Operations

Actor::Operation& Actor::make(Kind kind, const Actor& peer, std::uint64_t size) {
  Operation& operation = operations_.emplace_back();
  operation.fn = &Actor::on_end;
  operation.actor = this;
  operation.kind = kind;
  operation.peer = peer.index_;
  operation.name = (std::uint64_t{index_} + 1) * 0x1000 + operations_.size();
  operation.size = size;
  operation.local = memory_.local.data() + local_used_;
  local_used_ += pages(size);
  EXPECT_LE(local_used_, memory_.local.size());
  if (kind == Kind::put || kind == Kind::get) {
    std::size_t& used = shared_.window_used[peer.index_];
    operation.remote = peer.memory_.window.data() + used;
    used += pages(size);
    EXPECT_LE(used, peer.memory_.window.size());
    fill(kind == Kind::put ? operation.local : operation.remote, size, operation.name);
    std::memset(kind == Kind::put ? operation.remote : operation.local, 0, static_cast<std::size_t>(size));
  }
  if (kind == Kind::add) operation.remote = peer.memory_.window.data() + 8 * index_;
  return operation;
}

Post Actor::post_once(Operation& operation) {
  am::Endpoint& endpoint = *peers_[operation.peer].endpoint;
  const auto remote = reinterpret_cast<std::uint64_t>(operation.remote);
  switch (operation.kind) {
    case Kind::put: return endpoint.put(operation.local, remote, operation.handle, operation.size, operation);
    case Kind::get:
    case Kind::offered: return endpoint.get(operation.local, remote, operation.handle, operation.size, operation);
    case Kind::flush: return endpoint.flush(operation);
    default: break;
  }
  return endpoint.atomic({AtomicOp::add, AtomicType::u64, remote, &operation.handle, 1, 0, &operation.result},
                         operation);
}

/// True when it is under way, or will not be.
bool Actor::post(Operation& operation) {
  const Actor& to = *shared_.actors[operation.peer];
  if (!reaches(to)) return true;
  if (operation.kind != Kind::offered && operation.kind != Kind::flush) {
    const auto handle = peer(to).endpoint->unpack_key(to.key_);
    EXPECT_TRUE(handle) << to_string(handle.error());
    if (!handle) return true;
    operation.handle = *handle;
  }
  operation.posted_ns = shared_.world.now_ns();
  operation.posted = operation.queued = true;  // first: it may end within
  operation.order = ++posted_;
  const Post post = post_once(operation);
  if (post == Post::queued) return true;
  EXPECT_EQ(operation.calls, 0) << "completion of an operation that was not queued";
  operation.posted = operation.queued = false;
  if (post == Post::again) return false;
  EXPECT_NE(post, Post::failed) << to_string(operation.error);
  operation.posted = true;
  ended(operation);
  return true;
}

void Actor::on_end(Completion& self) noexcept {
  auto& operation = static_cast<Operation&>(self);
  EXPECT_EQ(++operation.calls, 1);
  operation.actor->ended(operation);
}

void Actor::ended(Operation& operation) noexcept {
  Shared& shared = shared_;
  const std::uint64_t now = shared.world.now_ns();
  shared.last_end_ns = now;
  shared.longest_wait_ns = std::max(shared.longest_wait_ns, now - operation.posted_ns);
  note(operation.name << 16 | static_cast<std::uint64_t>(operation.error.code));
  succeeded_ += operation.ok() ? 1 : 0;
  Peer& peer = peers_[operation.peer];
  switch (operation.kind) {
    case Kind::add:
      ++(operation.ok() ? peer.added : peer.uncertain);
      if (!operation.ok()) break;
      ASSERT_LT(operation.result, 64U);
      EXPECT_EQ(peer.results >> operation.result & 1, 0U) << "two atomics saw the same value";
      peer.results |= std::uint64_t{1} << operation.result;
      break;
    case Kind::flush:
      for (const Operation& before : operations_) {
        const bool awaited = before.kind == Kind::put || before.kind == Kind::add;
        if (!awaited || !before.queued || before.peer != operation.peer || before.order > operation.order) continue;
        EXPECT_EQ(before.calls, 1) << "flushed, but not through";
      }
      break;
    default:
      if (operation.ok()) {
        std::uint64_t others = 0;
        const std::byte* const data = operation.kind == Kind::put ? operation.remote : operation.local;
        EXPECT_EQ(count(data, operation.size, operation.name, others), operation.size / 8)
            << "success, and the data is not there";
      }
      std::memset(operation.local, static_cast<int>(kPoison), static_cast<std::size_t>(operation.size));
  }
  if (operation.kind == Kind::offered && reaches(*shared.actors[operation.peer])) {
    const Post post = peer.endpoint->send_or_queue(kTaken, bytes_of(operation.offer), {});
    // News of a failure come after completions.
    EXPECT_TRUE(post == Post::done || peer.endpoint->dead()) << to_string(peer.endpoint->error());
  }
}

void Actor::put(Actor& to, std::uint64_t size) {
  then([this, &operation = make(Kind::put, to, size)] { return post(operation); });
}

void Actor::get(Actor& from, std::uint64_t size) {
  then([this, &operation = make(Kind::get, from, size)] { return post(operation); });
}

void Actor::add(Actor& to) {
  then([this, &operation = make(Kind::add, to, 0)] { return post(operation); });
}

void Actor::flush(Actor& to) {
  then([this, &operation = make(Kind::flush, to, 0)] { return post(operation); });
}

void Actor::wait() {
  then([this] {
    return std::all_of(operations_.begin(), operations_.end(),
                       [](const Operation& each) { return !each.queued || each.calls == 1; });
  });
}

void Actor::lend_all() {
  auto enabled = context().register_address_space(Rights::all);
  ASSERT_TRUE(enabled) << to_string(enabled.error());
  everything_.emplace(std::move(*enabled));
  key_.assign(everything_->key().begin(), everything_->key().end());
}

// --- Memory exposed for one transfer

void Actor::offer(Actor& to, std::size_t bytes) {
  std::byte* const at = memory_.local.data() + local_used_;
  local_used_ += pages(bytes);
  const std::uint64_t number = offers_.size();
  offers_.emplace_back();
  fill(at, bytes, (std::uint64_t{index_} + 1) * 0x100 + number);
  then([this, &to, at, bytes, number] {
    if (!reaches(to)) return true;
    auto exposed = peer(to).endpoint->expose(at, bytes, Rights::remote_read);
    EXPECT_TRUE(exposed) << to_string(exposed.error());
    const Offer offer{number, reinterpret_cast<std::uint64_t>(at), bytes};
    offers_[number].emplace(Exposed{std::move(*exposed), to.index_});
    EXPECT_EQ(peer(to).endpoint->send_or_queue(kOffer, bytes_of(offer), offers_[number]->memory.handle()), Post::done);
    return true;
  });
}

void Actor::on_offer(btl::Delivery& delivery) noexcept {
  Offer offer{};
  ASSERT_TRUE(read_object(delivery.data, offer));
  const auto handle = MemoryHandle::from_bytes(delivery.data.subspan(sizeof offer));
  ASSERT_TRUE(handle);
  const auto from = std::find_if(peers_.begin(), peers_.end(),
                                 [&](const Peer& each) { return each.endpoint == &am::sender(delivery); });
  ASSERT_NE(from, peers_.end());
  Actor& owner = *shared_.actors[static_cast<std::size_t>(from - peers_.begin())];
  Operation& operation = make(Kind::offered, owner, offer.size);
  operation.name = (std::uint64_t{owner.index_} + 1) * 0x100 + offer.number;
  operation.offer = offer.number;
  operation.remote = reinterpret_cast<std::byte*>(offer.address);  // NOLINT(performance-no-int-to-ptr)
  operation.handle = *handle;
  steps_.push_front([this, &operation] { return post(operation); });
}

void Actor::on_taken(btl::Delivery& delivery) noexcept {
  std::uint64_t number = 0;
  ASSERT_TRUE(read_object(delivery.data, number));
  EXPECT_TRUE(offers_.at(number)) << "taken twice";
  offers_[number].reset();
}

void Actor::await_offers() {
  then([this] {
    return std::none_of(offers_.begin(), offers_.end(), [](const auto& each) { return each.has_value(); });
  });
}

// --- Checkpoints

bool Actor::all_at(int stage) const noexcept {
  return std::all_of(shared_.actors.begin(), shared_.actors.end(),
                     [&](const Actor* actor) { return !actor->alive() || actor->stage_ >= stage; });
}

void Actor::checkpoint() {
  then([this] {
    context().quiesce(static_cast<std::uint64_t>(stage_) + 1);
    probe();  // kept until resume()
    return true;
  });
  then([this] {
    if (!shared_.gave_up && !context().quiet()) return false;
    ++stage_;
    return true;
  });
  then([this] {
    if (shared_.gave_up) return true;
    if (!context().quiet() || !all_at(stage_)) return false;
    const auto done = context().checkpoint();
    EXPECT_TRUE(done) << to_string(done.error());
    EXPECT_EQ(context().registration_statistics().registered.count, 0U);
    return true;
  });
  meet();
  then([this] {
    context().resume();
    (void)context().progress();
    return true;
  });
}

void Actor::lose_rail() {
  then([this] {
    shared_.world.fabric(1).set_group(index_, 2);  // of its own: the campaign cuts with group 1
    return true;
  });
}

// --- Life

bool Actor::advance() {
  if (!alive_ || shared_.world.stopped(index_)) return false;
  for (am::Endpoint* endpoint : std::exchange(former_, {})) context().disconnect(*endpoint);
  bool any = false;
  while (!steps_.empty()) {
    const Step step = std::move(steps_.front());
    steps_.pop_front();
    if (!step()) {
      steps_.push_front(step);
      break;
    }
    any = true;
  }
  return any;
}

void Actor::kill(btl::sim::Crash how) {
  for (std::uint32_t rail = 0; rail < shared_.world.rails(); ++rail) shared_.world.fabric(rail).crash(index_, how);
  alive_ = false;
  steps_.clear();
  offers_.clear();
  region_ = {};
  everything_.reset();
  shared_.world.remove(index_);
  for (const Operation& each : operations_) EXPECT_EQ(each.calls, each.queued ? 1 : 0);
}

void Actor::check() const {
  for (const Operation& each : operations_) {
    EXPECT_EQ(each.calls, each.queued ? 1 : 0);
    if (each.posted) {
      EXPECT_TRUE(all_poison(each.local, each.size)) << "a buffer was written after the end of its operation";
    }
    if (each.kind != Kind::put) continue;
    std::uint64_t others = 0;
    const std::uint64_t there = count(each.remote, each.size, each.name, others);
    EXPECT_EQ(others, 0U) << "the target has what the source's owner wrote after the end of the put";
    EXPECT_TRUE(there == each.size / 8 || !each.posted || !each.ok()) << "a put that succeeded is undone";
  }
  for (const Actor* other : shared_.actors) {
    const Peer& peer = peers_[other->index_];
    std::uint64_t counter = 0;
    std::memcpy(&counter, other->memory_.window.data() + 8 * index_, sizeof counter);
    EXPECT_GE(counter, peer.added);
    EXPECT_LE(counter, peer.added + peer.uncertain);
    const Peer& theirs = other->peers_[index_];
    if (!works(*other) || !other->alive() || peer.sent == 0) continue;
    const bool same_life = theirs.heard_life == peer.life;
    EXPECT_TRUE(same_life && theirs.heard == peer.sent)
        << index_ << " to " << other->index_ << ": nothing failed, and of " << peer.sent << " messages came "
        << (same_life ? theirs.heard : 0);
  }
  const rcache::Statistics statistics = context().registration_statistics();
  EXPECT_EQ(statistics.registered.count, statistics.idle.count) << "idle registrations count as in use";
  EXPECT_EQ(statistics.failures, 0U);
}

void Actor::end() {
  region_ = {};
  everything_.reset();
  offers_.clear();
  for (Peer& peer : peers_) drop(peer);
  shared_.world.remove(index_);
  alive_ = false;
}

}  // namespace opal::test
