// SPDX-License-Identifier: Apache-2.0
// opal/am/transports/no_transport.hpp — where endpoints lead that have no transport.
// Between Context::connect_async() and the choice of a transport, between restart() and the next connect(), and when
// the peer goes away in the middle of a checkpoint: nothing goes out, nothing is lost, every post answers `again`.
// After the peer's death: every post answers `failed`, and the transport has its descriptors and memory back. Owned by
// the Context.  Threads: as btl::Module.
#pragma once
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "opal/btl/shared/message_transport.hpp"

namespace opal::am {

class NoTransport final : public btl::MessageTransport {
 public:
  /// Messages up to `max_send` bytes may be queued meanwhile.
  NoTransport(const btl::Host& host, std::size_t max_send)
      : btl::MessageTransport(host, {.transport = "none", .max_send = max_send}) {}

  /// An endpoint to the peer of `route`, dead if that one is.
  btl::Endpoint& add(const btl::Endpoint& route) { return keep(std::make_unique<Endpoint>(*this, route)); }
  /// An endpoint to a peer that is being connected.
  btl::Endpoint& add(const PeerId& peer) { return keep(std::make_unique<Endpoint>(*this, peer)); }
  /// That peer cannot be connected; progress() reports it.
  void fail(btl::Endpoint& endpoint, const Error& why) {
    static_cast<Endpoint&>(endpoint).fail(why);
    failed_.push_back(&endpoint);
  }
  /// An endpoint to the peer of `route`, which has gone because of `why` and may come back until give_up().
  btl::Endpoint& add_gone(const btl::Endpoint& route, const Error& why) {
    return keep(std::make_unique<Endpoint>(*this, route.peer(), why));
  }
  /// A dead endpoint without a peer.
  btl::Endpoint& add_dead(const Error& why) {
    auto endpoint = std::make_unique<Endpoint>(*this, PeerId{}, why);
    (void)endpoint->give_up();
    return keep(std::move(endpoint));
  }

  [[nodiscard]] ByteSpan address() const noexcept override { return {}; }
  Result<btl::Endpoint*> connect(const PeerId& /*peer*/, ByteSpan /*address*/) override { return kNone; }
  void disconnect(btl::Endpoint& endpoint) noexcept override {
    std::erase(failed_, &endpoint);
    endpoints_.erase(&endpoint);
  }
  Post send_inline(btl::Endpoint& to, Tag /*tag*/, ByteSpan /*header*/, ByteSpan /*payload*/) noexcept override {
    return answer(to);
  }
  btl::Fragment alloc(btl::Endpoint& /*to*/, std::size_t /*size*/) noexcept override { return {}; }
  Post atomic(btl::Endpoint& to, const AtomicRequest& /*request*/, Completion& completion) noexcept override {
    return answer(to, completion);
  }
  /// Tells whose peers did not come back.
  std::size_t progress(std::size_t /*budget*/) noexcept override {
    std::size_t count = 0;
    for (; !failed_.empty(); ++count) {
      btl::Endpoint& endpoint = *failed_.back();
      failed_.pop_back();
      host().observer.on_failed(endpoint, endpoint.error());
    }
    return count;
  }
  /// Whose peer has gone is dead from now on.
  void give_up() noexcept {
    for (const auto& [key, endpoint] : endpoints_) {
      if (endpoint->give_up()) failed_.push_back(endpoint.get());
    }
  }
  [[nodiscard]] int wait_fd() const noexcept override { return -1; }
  bool arm() noexcept override { return true; }

 private:
  struct Endpoint final : btl::Endpoint {
    Endpoint(btl::Module& module, const btl::Endpoint& before) noexcept : btl::Endpoint(module, before.peer()) {
      if (before.dead()) mark_dead(before.error());
    }
    Endpoint(btl::Module& module, const PeerId& peer) noexcept : btl::Endpoint(module, peer) {}
    Endpoint(btl::Module& module, const PeerId& peer, const Error& why) noexcept
        : btl::Endpoint(module, peer), gone_(why) {}
    [[nodiscard]] std::string describe() const override { return dead() ? "the peer has gone" : "not connected"; }
    void fail(const Error& why) noexcept { mark_dead(why); }
    /// Dead from now on, if the peer has gone.
    [[nodiscard]] bool give_up() noexcept {
      if (gone_) mark_dead(*gone_);
      return std::exchange(gone_, std::nullopt).has_value();
    }

   private:
    std::optional<Error> gone_{};  // why
  };
  btl::Endpoint& keep(std::unique_ptr<Endpoint> endpoint) {
    btl::Endpoint& kept = *endpoint;
    endpoints_.emplace(&kept, std::move(endpoint));
    return kept;
  }
  Post transfer(btl::RdmaOperation::Kind /*kind*/, btl::Endpoint& to, std::byte* /*local*/,
                const MemoryHandle* /*local_handle*/, std::uint64_t /*address*/, const MemoryHandle& /*remote*/,
                std::uint64_t /*size*/, Completion& completion) noexcept override {
    return answer(to, completion);
  }
  static Post answer(const btl::Endpoint& to) noexcept { return to.dead() ? Post::failed : Post::again; }
  static Post answer(const btl::Endpoint& to, Completion& completion) noexcept {
    if (to.dead()) completion.error = to.error();
    return answer(to);
  }
  static constexpr Error kNone{Errc::unreachable, 0, "no transport since the checkpoint"};

  std::unordered_map<const btl::Endpoint*, std::unique_ptr<Endpoint>> endpoints_;
  std::vector<btl::Endpoint*> failed_;  // dead, the Context does not know yet
};

}  // namespace opal::am
