// SPDX-License-Identifier: Apache-2.0
// tests/btl/emulation/fake_transport.hpp — a transport inside one process whose every message a test can hold back,
// look at, forge or deliver: two FakeModules connected to each other, a bounded queue of messages each way.
#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "opal/btl/shared/message_transport.hpp"
#include "opal/btl/shared/rdma_emulation.hpp"

namespace opal::test {

class FakeModule;

class FakeEndpoint final : public btl::Endpoint {
 public:
  FakeEndpoint(btl::Module& module, const PeerId& peer) : btl::Endpoint(module, peer) {}
  [[nodiscard]] std::string describe() const override { return "fake"; }
  void kill(const Error& why) { mark_dead(why); }
};

struct FakeMessage {
  Tag tag;
  std::vector<std::byte> bytes;
};

class FakeModule final : public btl::MessageTransport {
 public:
  FakeModule(const btl::ModuleParameters& parameters, std::size_t max_send)
      : btl::MessageTransport(parameters, {.transport = "fake", .max_send = max_send, .eager = max_send}),
        endpoint_(*this, PeerId{1, 1}) {}

  FakeModule* peer = nullptr;
  std::size_t capacity = 1000;       ///< messages under way before send answers `again`
  std::deque<FakeMessage> outgoing;  ///< sent and not yet delivered

  FakeEndpoint& endpoint() noexcept { return endpoint_; }
  btl::RdmaEmulation& rdma() noexcept { return emulation(); }

  /// Delivers the oldest message to the peer; false when there is none.
  bool deliver_one() {
    if (outgoing.empty()) return false;
    const FakeMessage message = std::move(outgoing.front());
    outgoing.pop_front();
    peer->receive(message.tag, message.bytes);
    return true;
  }
  /// As if the peer had sent it.
  void receive(Tag tag, ByteSpan bytes) {
    std::vector<std::byte> exact(bytes.begin(), bytes.end());  // so that a sanitizer sees a read beyond the end
    btl::Delivery delivery{endpoint_, tag, exact};
    parameters().handlers.dispatch(delivery);
  }

  [[nodiscard]] ByteSpan address() const noexcept override { return {}; }
  Result<btl::Endpoint*> connect(const PeerId&, ByteSpan) override { return &endpoint_; }
  void disconnect(btl::Endpoint&) noexcept override {}
  Post send_inline(btl::Endpoint& to, Tag tag, ByteSpan header, ByteSpan payload) noexcept override {
    if (to.dead() || header.size() + payload.size() > attributes().max_send) return Post::failed;
    if (outgoing.size() >= capacity) return Post::again;
    FakeMessage& message = outgoing.emplace_back();
    message.tag = tag;
    message.bytes.assign(header.begin(), header.end());
    message.bytes.insert(message.bytes.end(), payload.begin(), payload.end());
    return Post::done;
  }
  btl::Fragment alloc(btl::Endpoint&, std::size_t) noexcept override { return {}; }
  Post send(btl::Fragment&, Tag) noexcept override { return Post::failed; }
  void free(btl::Fragment& fragment) noexcept override { fragment.disown(); }
  std::size_t progress(std::size_t) noexcept override { return emulation().progress(); }
  [[nodiscard]] int wait_fd() const noexcept override { return -1; }
  bool arm() noexcept override { return emulation().idle(); }

 private:
  FakeEndpoint endpoint_;
};

/// One end: what a Context would own.
struct FakeSide final : btl::Observer {
  explicit FakeSide(std::size_t max_send)
      : registrations(*btl::RegistrationTable::create(64)),
        module(btl::ModuleParameters{PeerId::random(), handlers, registrations, *this}, max_send) {
    if (!btl::RdmaEmulation::install(handlers)) std::abort();
  }
  void on_accepted(btl::Endpoint&) noexcept override {}
  void on_failed(btl::Endpoint&, const Error&) noexcept override {}

  btl::HandlerTable handlers;
  btl::RegistrationTable registrations;
  FakeModule module;
};

/// Two connected ends.
struct FakePair {
  explicit FakePair(std::size_t max_send = 1024) : FakePair(max_send, max_send) {}
  FakePair(std::size_t max_send_of_a, std::size_t max_send_of_b) : a(max_send_of_a), b(max_send_of_b) {
    a.module.peer = &b.module;
    b.module.peer = &a.module;
  }
  /// Delivers and progresses until nothing moves any more.
  void settle() {
    bool moved = true;
    while (moved) {
      moved = a.module.deliver_one();
      moved = b.module.deliver_one() || moved;
      moved = a.module.progress(64) != 0 || moved;
      moved = b.module.progress(64) != 0 || moved;
    }
  }
  FakeSide a;
  FakeSide b;
};

}  // namespace opal::test
