// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/tcp/acceptor.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "opal/btl/shared/proofs.hpp"
#include "opal/btl/tcp/connections/sockets.hpp"
#include "opal/btl/tcp/module.hpp"
#include "opal/core/clock.hpp"
#include "opal/core/log.hpp"

namespace opal::btl::tcp {
namespace {

constexpr std::chrono::milliseconds kPauseWithoutDescriptors{100};
constexpr int kAcceptsPerTurn = 64;

/// Sends all of `bytes` in one call.  False: an error, or the socket buffer is full.
bool send_all(int fd, ByteSpan bytes) noexcept {
  return send_some(fd, bytes) == static_cast<std::int64_t>(bytes.size());
}

}  // namespace

/// A pending connection: unauthenticated, or parked (acceptor.hpp).  Acceptor::drop() and accept() may destroy it
/// inside its own on_ready() and on_deadline(), which then return at once.
class Incoming final : public Source {
 public:
  Incoming(Reactor& reactor, Acceptor& acceptor) noexcept : Source(reactor), acceptor_(acceptor) {}

  [[nodiscard]] const wire::Challenge& challenge() const noexcept { return challenge_; }
  [[nodiscard]] const wire::Hello& hello() const noexcept { return hello_; }
  [[nodiscard]] bool parked() const noexcept { return parked_; }
  void park() noexcept {
    parked_ = true;
    clear_deadline();
  }

  /// True when the peer has closed or reset the connection, or has sent data before its Welcome.
  [[nodiscard]] bool closed_or_early() const noexcept { return has_input(fd()); }

  void on_ready() noexcept override {
    if (!readable) return;
    if (parked_) {
      if (closed_or_early()) return acceptor_.drop(*this, nullptr);
      readable = false;
      return;
    }
    while (received_ < sizeof hello_) {
      const std::int64_t got = receive_some(fd(), MutableBytes{bytes_}.subspan(received_));
      if (got == -EAGAIN) {
        readable = false;
        return;
      }
      if (got <= 0) return acceptor_.drop(*this, nullptr);
      received_ += static_cast<std::size_t>(got);
    }
    std::memcpy(&hello_, bytes_.data(), sizeof hello_);
    acceptor_.on_hello(*this);
  }

  void on_deadline() noexcept override {
    acceptor_.drop(*this, "it did not prove in time that it belongs to this job");
  }

 private:
  Acceptor& acceptor_;
  const wire::Challenge challenge_{wire::kMagic, wire::kWireVersion, 0, fresh_nonce()};
  std::array<std::byte, sizeof(wire::Hello)> bytes_{};
  std::size_t received_ = 0;
  wire::Hello hello_{};
  bool parked_ = false;
};

Acceptor::Acceptor(Reactor& reactor, const Config& config, const PeerId& self, const Secret& key,
                   std::vector<Interface> allowed, Module& owner)
    : Source(reactor), config_(config), self_(self), key_(key), allowed_(std::move(allowed)), owner_(owner) {}

Acceptor::~Acceptor() = default;

void Acceptor::stop() noexcept {
  close();
  incoming_.clear();
}

void Acceptor::on_ready() noexcept {
  for (int i = 0; i < kAcceptsPerTurn && readable; ++i) {
    Fd fd{::accept4(this->fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)};
    if (fd) {
      take(std::move(fd));
      continue;
    }
    const int error = errno;
    if (error == EAGAIN) {
      readable = false;
    } else if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) {
      log::once(log::Level::warn, "tcp accept", "btl.tcp", "cannot accept connections now: {}", std::strerror(error));
      readable = false;  // the connection stays in the kernel's queue: on_deadline() tries again
      set_deadline_in(kPauseWithoutDescriptors);
    }
    // Any other error (ECONNABORTED, EPERM) concerns only that connection: the next one is tried.
  }
  if (readable) schedule();
}

void Acceptor::on_deadline() noexcept {
  readable = true;
  schedule();
}

void Acceptor::take(Fd fd) noexcept {
  const auto arrived_on = [&, local = local_address(fd.get())](const Interface& interface) {
    return interface.address.ip == local.ip;
  };
  if (!allowed_.empty() && std::ranges::none_of(allowed_, arrived_on)) {
    log::debug("btl.tcp", "connection from {} refused: it came in on an interface not in use",
               to_string(peer_address(fd.get())));
    return;
  }
  if (incoming_.size() >= config_.max_pending) drop(*incoming_.front(), "too many connections are not accepted yet");
  auto incoming = std::make_unique<Incoming>(reactor(), *this);
  if (!send_all(fd.get(), bytes_of(incoming->challenge()))) return;
  if (!incoming->watch(std::move(fd))) return;
  incoming->set_deadline_in(config_.handshake_timeout);
  incoming->readable = true;
  incoming->schedule();
  incoming_.push_back(std::move(incoming));
}

void Acceptor::on_hello(Incoming& incoming) noexcept {
  const wire::Hello& hello = incoming.hello();
  if (!is_genuine(key_, hello, bytes_of(incoming.challenge()))) {
    return drop(incoming, "it does not know the job's secret: another job, another am_secret_file, or another program");
  }
  if (hello.to != self_) return drop(incoming, "its Hello names another process");
  if (hello.max_send > kLargestMaxSend.bytes) return drop(incoming, "it announces messages of more than 4 MiB");
  switch (owner_.decide(hello.from)) {
    case Decision::accept: return accept(incoming);
    case Decision::park:
      tune(config_, incoming.fd());  // keepalive: it may wait for long
      return incoming.park();
    case Decision::refuse: return drop(incoming, "it claims the identity of this process");
  }
}

void Acceptor::accept(Incoming& incoming) noexcept {
  const wire::Hello hello = incoming.hello();
  wire::Welcome welcome{config_.max_send.bytes, {}};
  sign(key_, welcome, bytes_of(incoming.challenge()), bytes_of(hello));
  Fd fd = incoming.release();
  std::erase_if(incoming_, [&](const auto& mine) { return mine.get() == &incoming; });
  (void)send_all(fd.get(), bytes_of(welcome));  // an error shows again at the next read
  owner_.on_connection(hello.from, std::move(fd), static_cast<std::uint32_t>(hello.max_send));
}

void Acceptor::drop(Incoming& incoming, const char* why) noexcept {
  if (why != nullptr) {
    log::once(log::Level::warn, why, "btl.tcp", "connection from {} closed: {} (further ones are not mentioned)",
              to_string(peer_address(incoming.fd())), why);
  }
  std::erase_if(incoming_, [&](const auto& mine) { return mine.get() == &incoming; });
}

bool Acceptor::has_parked(const PeerId& from) const noexcept {
  return std::ranges::any_of(incoming_, [&](const auto& one) { return one->parked() && one->hello().from == from; });
}

void Acceptor::unpark(const PeerId& from) noexcept {
  while (true) {
    const auto found =
        std::ranges::find_if(incoming_, [&](const auto& one) { return one->parked() && one->hello().from == from; });
    if (found == incoming_.end()) return;
    if (!(*found)->closed_or_early()) return accept(**found);
    drop(**found, nullptr);
  }
}

}  // namespace opal::btl::tcp
