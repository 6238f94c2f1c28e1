// SPDX-License-Identifier: Apache-2.0
// opal/am/transports/no_transport.hpp — the module of routes of endpoints that have no transport.
//   when                                                                    posts return
//   between Context::connect_async() and the choice of a transport          again
//   between restart() and the next connect()                                again
//   after the peer failed between checkpoint() and resume(), until resume() again
//   after the peer's death, so that the transport can free its endpoint     failed
// Owned by the Context.  Threads: as btl::Module.
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
  /// `max_send`: bytes of the longest message that send_or_queue() accepts for such an endpoint.
  NoTransport(const btl::ModuleParameters& parameters, std::size_t max_send)
      : btl::MessageTransport(parameters, {.transport = "none", .max_send = max_send}) {}

  /// Adds an endpoint to a peer that is being connected.
  btl::Endpoint& add(const PeerId& peer) { return add_with(peer); }
  /// Adds an endpoint to the peer of `route`, dead if `route` is dead.
  btl::Endpoint& add(const btl::Endpoint& route) {
    Endpoint& added = add_with(route.peer());
    if (route.dead()) added.fail(route.error());
    return added;
  }
  /// Marks the endpoint dead; the next progress() reports the failure.
  void fail(btl::Endpoint& endpoint, const Error& why) {
    static_cast<Endpoint&>(endpoint).fail(why);
    failed_.push_back(&endpoint);
  }
  /// Adds an endpoint to the peer of `route`, which failed with `why` and may reconnect until give_up().
  btl::Endpoint& add_gone(const btl::Endpoint& route, const Error& why) { return add_with(route.peer(), why); }
  /// Adds a dead endpoint without a peer.
  btl::Endpoint& add_dead(const Error& why) {
    Endpoint& added = add_with({});
    added.fail(why);
    return added;
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
  /// Reports the endpoints in failed_ to the observer; returns their number.
  std::size_t progress(std::size_t /*budget*/) noexcept override {
    std::size_t count = 0;
    for (; !failed_.empty(); ++count) {
      btl::Endpoint& endpoint = *failed_.back();
      failed_.pop_back();
      parameters().observer.on_failed(endpoint, endpoint.error());
    }
    return count;
  }
  /// Marks all endpoints of add_gone() dead; the next progress() reports them.
  void give_up() noexcept {
    for (const auto& [key, endpoint] : endpoints_) {
      if (const auto why = std::exchange(endpoint->gone, std::nullopt)) fail(*endpoint, *why);
    }
  }
  [[nodiscard]] int wait_fd() const noexcept override { return -1; }
  /// No descriptor becomes readable for a failure: false while progress() has one to report.
  bool arm() noexcept override { return failed_.empty(); }

 private:
  struct Endpoint final : btl::Endpoint {
    Endpoint(btl::Module& module, const PeerId& peer, const std::optional<Error>& gone) noexcept
        : btl::Endpoint(module, peer), gone(gone) {}
    [[nodiscard]] std::string describe() const override { return dead() ? "the peer has gone" : "not connected"; }
    void fail(const Error& why) noexcept { mark_dead(why); }
    std::optional<Error> gone;  // why the peer failed; set by add_gone() until give_up()
  };
  Endpoint& add_with(const PeerId& peer, const std::optional<Error>& gone = {}) {
    auto endpoint = std::make_unique<Endpoint>(*this, peer, gone);
    const btl::Endpoint* const key = endpoint.get();
    return *(endpoints_[key] = std::move(endpoint));
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
  std::vector<btl::Endpoint*> failed_;  // dead endpoints that progress() still has to report
};

}  // namespace opal::am
