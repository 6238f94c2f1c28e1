// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/overlay_crowd.hpp"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "opal/btl/sim/module.hpp"
#include "runtime/overlay/node.hpp"

namespace opal::test {
namespace {

using runtime::overlay::Channel;
using runtime::overlay::Id;
using runtime::overlay::IdSet;
using runtime::overlay::Node;
using runtime::overlay::Range;

constexpr Tag kTag = kRuntimeTags.first;
constexpr std::uint16_t kLaunch = runtime::overlay::kFirstUserTopic;
constexpr std::uint16_t kNews = kLaunch + 1;
constexpr std::size_t kLaunchBytes = 2048;
constexpr std::size_t kNewsBytes = 1024;
constexpr std::uint64_t kNever = 1'000'000'000'000'000;  // nothing fails here: no beats, no timeouts

std::size_t heap_in_use() {
  const auto info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

class Crowd;

class CrowdMember final : private runtime::overlay::Port, private runtime::overlay::Client {
 public:
  CrowdMember(Crowd& crowd, Id id, std::unique_ptr<btl::sim::Module> module)
      : crowd_(crowd), id_(id), module_(std::move(module)) {}

  void start();
  void arrive(const char* key);
  [[nodiscard]] Node& node() noexcept { return *node_; }
  [[nodiscard]] btl::sim::Module& module() noexcept { return *module_; }
  /// Of a connection that is new at this end.
  Channel add(btl::Endpoint& endpoint);
  void receive(Channel from, std::string frame);
  /// After the Node was called.
  void touched();

  std::uint64_t frames = 0;  // sent
  std::uint64_t bytes = 0;
  std::uint64_t frames_in = 0;
  std::uint64_t bytes_in = 0;

 private:
  Channel connect(Id member) override;
  void send(Channel channel, std::string frame) override;
  void close(Channel) override { ADD_FAILURE() << "nothing fails here"; }
  void on_up(Id, std::uint16_t, ByteSpan) override {}
  void on_down(std::uint16_t topic, ByteSpan content) override;
  void on_release(const runtime::overlay::Release& release) override;
  [[nodiscard]] runtime::overlay::IdSet absent(const std::string&) const override { return {}; }
  void on_lost(Id, runtime::overlay::Loss) override { ADD_FAILURE() << "no member is lost here"; }
  void on_out(const char* why) override { ADD_FAILURE() << why; }
  /// Keeps the processor busy for that long, after what it does already; returns when it is done.
  std::uint64_t work(std::uint64_t ns);

  Crowd& crowd_;
  const Id id_;
  std::unique_ptr<btl::sim::Module> module_;
  std::vector<btl::Endpoint*> channels_;  // by number, from 1
  std::optional<Node> node_;
  std::uint64_t busy_until_ = 0;
  std::uint64_t timer_ = UINT64_MAX;
  bool spawned_ = false;
};

class Crowd final : private btl::Observer {
 public:
  Crowd(std::uint32_t count, unsigned radix, const CrowdCosts& costs);
  CrowdResult run();

  /// Runs until `count` members have said done() since the last time.
  void run_until_done(std::uint64_t count);
  void done() {
    ++done_;
    last_done_ = fabric_->now_ns();
  }
  [[nodiscard]] btl::sim::Fabric& fabric() noexcept { return *fabric_; }

  const std::uint32_t count;
  const unsigned radix;
  const CrowdCosts costs;
  std::vector<std::unique_ptr<CrowdMember>> members;

 private:
  static btl::sim::Config config_for(const CrowdCosts& costs);
  void on_message(btl::Delivery& delivery) noexcept;
  void on_accepted(btl::Endpoint& endpoint) noexcept override;
  void on_failed(btl::Endpoint&, const Error& why) noexcept override { ADD_FAILURE() << to_string(why); }

  const btl::sim::Config config_;
  std::shared_ptr<btl::sim::Fabric> fabric_;
  btl::HandlerTable handlers_;
  btl::RegistrationTable registrations_;
  std::uint64_t done_ = 0;
  std::uint64_t last_done_ = 0;
};

// --- A member

void CrowdMember::start() {
  runtime::overlay::Options options{.self = id_,
                                    .count = crowd_.count,
                                    .radix = crowd_.radix,
                                    .beat = kNever,
                                    .silence_timeout = kNever,
                                    .grace = kNever,
                                    .start = kNever,
                                    .ack_delay = 1'000'000};
  runtime::overlay::Port& port = *this;
  runtime::overlay::Client& client = *this;
  node_.emplace(options, port, client, crowd_.fabric().now_ns());
  touched();
}

std::uint64_t CrowdMember::work(std::uint64_t ns) {
  busy_until_ = std::max(busy_until_, crowd_.fabric().now_ns()) + ns;
  return busy_until_;
}

Channel CrowdMember::add(btl::Endpoint& endpoint) {
  work(crowd_.costs.connect);
  channels_.push_back(&endpoint);
  endpoint.upper = reinterpret_cast<void*>(channels_.size());
  return channels_.size();
}

Channel CrowdMember::connect(Id member) {
  btl::sim::Module& other = crowd_.members[member]->module();
  return add(**module_->connect({member + 1, member + 1}, other.address()));
}

void CrowdMember::send(Channel channel, std::string frame) {
  ++frames;
  bytes += frame.size();
  crowd_.fabric().at(work(crowd_.costs.send), [this, channel, frame = std::move(frame)] {
    EXPECT_EQ(module_->send_inline(*channels_[channel - 1], kTag, as_bytes(std::span{frame}), {}), Post::done);
  });
}

void CrowdMember::receive(Channel from, std::string frame) {
  ++frames_in;
  bytes_in += frame.size();
  crowd_.fabric().at(work(crowd_.costs.receive), [this, from, frame = std::move(frame)] {
    node_->on_frame(from, as_bytes(std::span{frame}), crowd_.fabric().now_ns());
    touched();
  });
}

void CrowdMember::touched() {
  if (!spawned_ && node_->attached()) {
    spawned_ = true;
    for (const Range& child : node_->tree().children(id_)) {
      const std::uint64_t forked = work(crowd_.costs.fork);
      crowd_.fabric().at(forked + crowd_.costs.boot, [this, id = child.begin] { crowd_.members[id]->start(); });
    }
  }
  const std::uint64_t due = node_->deadline();
  if (due >= timer_ || due >= kNever) return;
  timer_ = due;
  crowd_.fabric().at(due, [this, due] {
    if (timer_ == due) timer_ = UINT64_MAX;
    if (node_->deadline() <= crowd_.fabric().now_ns()) node_->on_time(crowd_.fabric().now_ns());
    touched();
  });
}

void CrowdMember::arrive(const char* key) {
  node_->arrive(key, IdSet{Range{0, crowd_.count}}, 0, {});
  touched();
}

void CrowdMember::on_down(std::uint16_t topic, ByteSpan) {
  if (topic == kNews) return crowd_.done();
  arrive("started");
}

void CrowdMember::on_release(const runtime::overlay::Release& release) {
  if (release.name.key == "fence" || id_ == 0) crowd_.done();
}

// --- All of them

btl::sim::Config Crowd::config_for(const CrowdCosts& costs) {
  static int crowds = 0;
  return {
      .fabric = "crowd-" + std::to_string(crowds++), .latency_ns = costs.latency, .max_send = 1_MiB, .window = 65536};
}

Crowd::Crowd(std::uint32_t members_count, unsigned tree_radix, const CrowdCosts& what_costs)
    : count(members_count),
      radix(tree_radix),
      costs(what_costs),
      config_(config_for(what_costs)),
      fabric_(*btl::sim::Fabric::drive(config_)),
      registrations_(*btl::RegistrationTable::create(16)) {
  EXPECT_TRUE(handlers_.set(kTag, btl::bind<&Crowd::on_message>(*this, "crowd")));
}

void Crowd::on_message(btl::Delivery& delivery) noexcept {
  const btl::sim::NodeId at = static_cast<btl::sim::Module&>(delivery.from.module()).node();
  members[at]->receive(reinterpret_cast<Channel>(delivery.from.upper),
                       std::string{runtime::oob::as_text(delivery.data)});
}

void Crowd::on_accepted(btl::Endpoint& endpoint) noexcept {
  members[static_cast<btl::sim::Module&>(endpoint.module()).node()]->add(endpoint);
}

void Crowd::run_until_done(std::uint64_t wanted) {
  done_ = 0;
  btl::sim::NodeId node = 0;
  do {
    while (fabric_->next_ready(node)) {
      while (members[node]->module().progress(64) != 0) {
      }
    }
  } while (done_ < wanted && fabric_->step());
  EXPECT_EQ(done_, wanted);
}

CrowdResult Crowd::run() {
  CrowdResult result;
  const std::size_t empty = heap_in_use();
  for (Id id = 0; id < count; ++id) {
    const btl::ModuleParameters parameters{PeerId{id + 1, id + 1}, handlers_, registrations_, *this, {}};
    members.push_back(
        std::make_unique<CrowdMember>(*this, id, std::move(*btl::sim::Module::open(parameters, config_))));
  }
  const std::size_t idle = heap_in_use();
  result.device_memory = (idle - std::min(idle, empty + count * sizeof(CrowdMember))) / count;

  CrowdMember& root = *members[0];
  root.start();
  root.node().send_down(IdSet{Range{1, count}}, kLaunch, std::string(kLaunchBytes, 'l'));
  root.arrive("started");
  run_until_done(1);
  result.launch_ms = static_cast<double>(last_done_) / 1e6;

  std::uint64_t begin = fabric_->now_ns() + 50'000'000;  // acknowledgements are over
  for (const auto& member : members) {
    fabric_->at(begin, [&member] { member->arrive("fence"); });
  }
  run_until_done(count);
  result.fence_us = static_cast<double>(last_done_ - begin) / 1e3;
  result.member_memory = (heap_in_use() - idle) / count + sizeof(CrowdMember);

  begin = fabric_->now_ns() + 50'000'000;
  fabric_->at(begin, [this, &root] {
    root.node().send_down(IdSet{Range{1, count}}, kNews, std::string(kNewsBytes, 'n'));
    root.touched();
  });
  run_until_done(count - 1);
  result.broadcast_us = static_cast<double>(last_done_ - begin) / 1e3;

  std::uint64_t frames = 0;
  std::uint64_t bytes = 0;
  for (const auto& member : members) {
    frames += member->frames;
    bytes += member->bytes;
  }
  result.frames_each = static_cast<double>(frames) / count;
  result.bytes_each = static_cast<double>(bytes) / count;
  result.root_frames = root.frames + root.frames_in;
  result.root_bytes = root.bytes + root.bytes_in;
  return result;
}

}  // namespace

CrowdResult run_crowd(std::uint32_t count, unsigned radix, const CrowdCosts& costs) {
  return Crowd{count, radix, costs}.run();
}

}  // namespace opal::test
