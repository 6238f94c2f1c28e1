// SPDX-License-Identifier: Apache-2.0
// tests/btl/tcp/side.hpp — one tcp module with its surroundings and a record of what happened to it, and a raw_peer:
// a plain socket that can say anything to a module's port.
#pragma once
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "opal/btl/shared/proofs.hpp"
#include "opal/btl/shared/rdma_emulation.hpp"
#include "opal/btl/tcp/connections/address.hpp"
#include "opal/btl/tcp/module.hpp"
#include "opal/core/clock.hpp"
#include "opal/core/system/fd.hpp"

namespace opal::test {

inline constexpr Tag kTag = kUserTags.first;

inline btl::tcp::Config loopback() {
  btl::tcp::Config config;
  config.if_include = "127.0.0.0/8";
  return config;
}

struct TcpSide final : btl::Observer {
  explicit TcpSide(const btl::tcp::Config& config = loopback(), PeerId identity = PeerId::random(),
                   const Secret& secret = {})
      : id(identity) {
    EXPECT_TRUE(btl::RdmaEmulation::install(handlers));
    EXPECT_TRUE(handlers.set(kTag, btl::bind<&TcpSide::on_message>(*this, "test")));
    auto opened = btl::tcp::Module::open(btl::ModuleParameters{id, handlers, registrations, *this, secret}, config);
    EXPECT_TRUE(opened) << (opened ? "" : to_string(opened.error()));
    if (opened) module = std::move(*opened);
  }
  void on_accepted(btl::Endpoint& endpoint) noexcept override { accepted.push_back(&endpoint); }
  void on_failed(btl::Endpoint& endpoint, const Error& why) noexcept override {
    failures.emplace_back(&endpoint, why);
    if (after_failed) after_failed();
  }
  void on_message(btl::Delivery& delivery) noexcept {
    if (handler) return handler(delivery);
    received.emplace_back(delivery.data.begin(), delivery.data.end());
  }
  btl::Endpoint* connect(TcpSide& peer) {
    auto route = module->connect(peer.id, peer.module->address());
    EXPECT_TRUE(route) << (route ? "" : to_string(route.error()));
    return route ? *route : nullptr;
  }
  /// What a peer without a secret that has the address proves to know.
  [[nodiscard]] Secret key() const {
    return Secret{}.derive(btl::tcp::wire::kConnectionKey, bytes_of(btl::tcp::decode(module->address())->token));
  }
  [[nodiscard]] std::uint16_t port() const {
    return btl::tcp::decode(module->address())->sockets.front().port_number();
  }

  PeerId id;
  btl::HandlerTable handlers;
  btl::RegistrationTable registrations = *btl::RegistrationTable::create(64);
  std::function<void(btl::Delivery&)> handler;
  std::function<void()> after_failed;
  std::vector<std::vector<std::byte>> received;
  std::vector<btl::Endpoint*> accepted;
  std::vector<std::pair<btl::Endpoint*, Error>> failures;
  std::unique_ptr<btl::tcp::Module> module;  // last: goes first
};

template <class... Sides>
[[nodiscard]] bool pump(const std::function<bool()>& condition, Sides&... sides) {
  const Deadline deadline = Deadline::after(std::chrono::seconds{20});
  while (!condition()) {
    (sides.module->progress(64), ...);
    if (deadline.expired()) return false;
  }
  return true;
}

inline std::vector<std::byte> pattern(std::size_t size, unsigned seed) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((i * 131 + i / 251 + seed) & 0xff);
  return bytes;
}

/// A plain socket.
class RawPeer {
 public:
  explicit RawPeer(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0) << std::strerror(errno);
  }
  explicit RawPeer(Fd fd) : fd_(std::move(fd)) {}
  void say(ByteSpan bytes) { (void)::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  /// True once the other side has closed; what it said before is in `heard`.
  [[nodiscard]] bool closed() {
    std::byte buffer[4096];
    while (true) {
      const ssize_t got = ::recv(fd_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
      if (got > 0) {
        heard.insert(heard.end(), buffer, buffer + got);
      } else {
        return got == 0 || errno != EAGAIN;
      }
    }
  }
  /// Answers the challenge of `side` as a peer with the right address would, unless told otherwise.
  void greet(TcpSide& side, const PeerId& from = PeerId::random(), std::uint64_t max_send = 4096) {
    greet(side, from, side.id, max_send, side.key());
  }
  void greet(TcpSide& side, const PeerId& from, const PeerId& to, std::uint64_t max_send, const Secret& key) {
    say(bytes_of(answer_to(side, from, to, max_send, key)));
  }
  /// The same without sending it.
  btl::tcp::wire::Hello answer_to(TcpSide& side, const PeerId& from, const PeerId& to, std::uint64_t max_send,
                                  const Secret& key) {
    btl::tcp::wire::Challenge challenge{};
    EXPECT_TRUE(pump([&] { return closed() || heard.size() >= sizeof challenge; }, side));
    EXPECT_TRUE(read_object(ByteSpan{heard}, challenge));
    heard.erase(heard.begin(), heard.begin() + sizeof challenge);
    btl::tcp::wire::Hello hello{from, to, fresh_nonce(), max_send, {}};
    btl::sign(key, hello, bytes_of(challenge));
    return hello;
  }
  std::vector<std::byte> heard;
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  Fd fd_;
};

}  // namespace opal::test
