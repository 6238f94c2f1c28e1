// SPDX-License-Identifier: Apache-2.0
// tests/am/scripted_transport.hpp — a transport that does what the test says: has room or not, dies at a given send,
// refuses a peer.  Every peer is imaginary; what is sent to it is recorded.
#pragma once
#include <sys/eventfd.h>

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "opal/am/bootstrap/address.hpp"
#include "opal/am/context.hpp"
#include "opal/btl/component.hpp"
#include "opal/btl/shared/message_transport.hpp"
#include "opal/core/system/fd.hpp"

namespace opal::test {

class ScriptedModule final : public btl::MessageTransport {
 public:
  class Endpoint final : public btl::Endpoint {
   public:
    Endpoint(btl::Module& module, const PeerId& peer) : btl::Endpoint(module, peer) {}
    [[nodiscard]] std::string describe() const override { return "imaginary"; }
    void die(const Error& why) { mark_dead(why); }
  };

  ScriptedModule(const btl::ModuleParameters& parameters, const btl::Component& component)
      : btl::MessageTransport(parameters, {.transport = component.name, .max_send = 256}) {
    opened.push_back(this);
  }
  ~ScriptedModule() override { std::erase(opened, this); }

  static inline std::vector<ScriptedModule*> opened;  ///< those of the one Context of a test, in order of opening

  std::size_t room = 1000;                     ///< sends until the answer is `again`
  bool refuses = false;                        ///< connect() fails
  std::function<void(Endpoint&)> before_send;  ///< runs first in send_inline
  std::vector<std::string> sent;
  std::size_t arms = 0;      ///< calls of arm()
  std::size_t happened = 0;  ///< what the next progress() returns
  std::list<Endpoint> endpoints;

  void kill(Endpoint& endpoint) {
    const Error why{Errc::peer_gone, 0, "scripted: killed"};
    endpoint.die(why);
    emulation().endpoint_gone(endpoint, why);
    parameters().observer.on_failed(endpoint, why);
  }
  void accept(const PeerId& peer) { parameters().observer.on_accepted(endpoints.emplace_back(*this, peer)); }
  void deliver(Endpoint& from, Tag tag, ByteSpan bytes) {
    btl::Delivery delivery{from, tag, bytes};
    parameters().handlers.dispatch(delivery);
  }

  [[nodiscard]] ByteSpan address() const noexcept override { return {}; }
  Result<btl::Endpoint*> connect(const PeerId& peer, ByteSpan) override {
    if (refuses) return Error{Errc::permission, 13, "scripted: refuses"};
    return &endpoints.emplace_back(*this, peer);
  }
  void disconnect(btl::Endpoint& endpoint) noexcept override {
    endpoints.remove_if([&](const Endpoint& entry) { return &entry == &endpoint; });
  }
  Post send_inline(btl::Endpoint& to, Tag, ByteSpan header, ByteSpan payload) noexcept override {
    if (before_send) before_send(static_cast<Endpoint&>(to));
    if (to.dead()) return Post::failed;
    if (header.size() + payload.size() > attributes().max_send) {
      to.set_error({Errc::invalid_argument, 0, "scripted: too long"});
      return Post::failed;
    }
    if (room == 0) return Post::again;
    --room;
    std::string text(header.size() + payload.size(), ' ');
    auto* place = reinterpret_cast<std::byte*>(text.data());
    std::copy(payload.begin(), payload.end(), std::copy(header.begin(), header.end(), place));
    sent.push_back(std::move(text));
    return Post::done;
  }
  btl::Fragment alloc(btl::Endpoint& to, std::size_t size) noexcept override {
    return btl::Fragment{to, MutableBytes{buffer_}.first(size), buffer_.data()};
  }
  Post send(btl::Fragment& fragment, Tag tag) noexcept override {
    const Post post = send_inline(fragment.to(), tag, fragment.data(), {});
    if (post != Post::again) fragment.disown();
    return post;
  }
  void free(btl::Fragment& fragment) noexcept override { fragment.disown(); }
  std::size_t progress(std::size_t) noexcept override { return std::exchange(happened, 0); }
  [[nodiscard]] int wait_fd() const noexcept override { return event_.get(); }
  bool arm() noexcept override {
    ++arms;
    return true;
  }

 private:
  Fd event_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::vector<std::byte> buffer_ = std::vector<std::byte>(256);
};

template <const btl::Component& component>
Result<btl::Modules> open_scripted(const btl::ModuleParameters& parameters, const config::Store&) {
  btl::Modules modules;
  modules.push_back(std::make_unique<ScriptedModule>(parameters, component));
  return modules;
}

extern const btl::Component kFast;
extern const btl::Component kSlow;
extern const btl::Component kAbsent;

/// A Context over the scripted transports fast (exclusivity 20), slow (10) and absent (not usable).
struct ScriptedContext {
  explicit ScriptedContext(const config::Store& store = {}, am::Observer* observer = nullptr,
                           am::ThreadLevel threads = am::ThreadLevel::single);
  /// Connects to an imaginary peer that has these transports.
  am::Endpoint& connect(const std::vector<std::string>& transports = {"fast", "slow"});
  [[nodiscard]] ScriptedModule& module(std::size_t index) const { return *ScriptedModule::opened.at(index); }

  btl::Registry registry;
  std::unique_ptr<am::Context> context;
};

}  // namespace opal::test
