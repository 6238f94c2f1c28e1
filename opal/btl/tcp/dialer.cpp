// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/tcp/dialer.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "opal/btl/shared/proofs.hpp"
#include "opal/btl/tcp/connections/sockets.hpp"
#include "opal/btl/tcp/endpoint.hpp"
#include "opal/core/clock.hpp"

namespace opal::btl::tcp {
namespace {

constexpr unsigned kMostPasses = 5;
constexpr std::uint64_t kFirstPauseNs = 100'000'000;  // before the second pass; doubles each time

std::uint64_t in_ns(std::chrono::milliseconds time) noexcept {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds{time}.count());
}

}  // namespace

/// The attempt to connect to one address.  Dialer::failed() and Endpoint::adopt() may destroy it.
class Attempt final : public Source {
 public:
  Attempt(Reactor& reactor, Dialer& dialer, std::size_t candidate) noexcept
      : Source(reactor), dialer_(dialer), candidate_(candidate) {}

  [[nodiscard]] std::size_t candidate() const noexcept { return candidate_; }
  /// True once the peer's host has accepted the connection; the process may still be busy.
  [[nodiscard]] bool connected() const noexcept { return connected_; }

  Result<void> start() noexcept {
    OPAL_TRY_ASSIGN(Fd fd, start_connect(dialer_.candidates_[candidate_]));
    return watch(std::move(fd));
  }

  void on_ready() noexcept override {
    if (!connected_) {
      if (!writable && !ended) return;
      int error = 0;
      socklen_t length = sizeof error;
      if (::getsockopt(fd(), SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error != 0) {
        return dialer_.failed(*this, {Errc::unreachable, error, "connect(tcp)"}, false);
      }
      connected_ = true;
    }
    if (!challenged_) {
      if (!receive(sizeof challenge_)) return;
      if (!answer_challenge()) return;
    }
    if (receive(sizeof(wire::Welcome))) read_welcome();
  }

 private:
  /// True when the next `size` bytes have arrived; they are in bytes_.  False: not yet, or the attempt has failed.
  bool receive(std::size_t size) noexcept {
    while (received_ < size) {
      if (!readable) return false;
      const std::int64_t got = receive_some(fd(), MutableBytes{bytes_}.first(size).subspan(received_));
      if (got == -EAGAIN) {
        readable = false;
        return false;
      }
      if (got <= 0) {
        const char* const where = challenged_ ? "tcp handshake: closed without an answer; do both have the same secret?"
                                              : "tcp handshake: closed without a challenge";
        dialer_.failed(*this, {Errc::unreachable, static_cast<int>(-got), where}, true);
        return false;
      }
      received_ += static_cast<std::size_t>(got);
    }
    received_ = 0;
    return true;
  }

  /// Sends the Hello.  False: the attempt has failed and *this is destroyed.
  bool answer_challenge() noexcept {
    std::memcpy(&challenge_, bytes_.data(), sizeof challenge_);
    if (challenge_.magic != wire::kMagic) {
      return dialer_.failed(*this, {Errc::unreachable, 0, "tcp handshake: another process answered"}, false), false;
    }
    if (challenge_.version != wire::kWireVersion) {
      const Error why{Errc::version_mismatch, 0, "tcp handshake: the peer has another version of OPAL",
                      challenge_.version};
      return dialer_.failed(*this, why, false), false;
    }
    const HandshakeSides& sides = dialer_.sides_;
    hello_ = {sides.from, sides.to, fresh_nonce(), sides.max_send, {}};
    sign(sides.key, hello_, bytes_of(challenge_));
    const std::int64_t sent = send_some(fd(), bytes_of(hello_));
    // The send buffer of a new connection takes that many bytes at once.
    if (sent != static_cast<std::int64_t>(sizeof hello_)) {
      const int error = sent < 0 ? static_cast<int>(-sent) : 0;
      return dialer_.failed(*this, {Errc::unreachable, error, "tcp handshake: send"}, true), false;
    }
    challenged_ = true;
    return true;
  }

  void read_welcome() noexcept {
    wire::Welcome welcome{};
    std::memcpy(&welcome, bytes_.data(), sizeof welcome);
    if (!is_genuine(dialer_.sides_.key, welcome, bytes_of(challenge_), bytes_of(hello_))) {
      return dialer_.failed(*this, {Errc::permission, 0, "tcp handshake: the peer does not know the secret"}, false);
    }
    if (welcome.max_send > kLargestMaxSend.bytes) {
      return dialer_.failed(*this, {Errc::protocol, 0, "tcp handshake: max_send too large", welcome.max_send}, false);
    }
    dialer_.owner_.adopt(release(), static_cast<std::uint32_t>(welcome.max_send));
  }

  Dialer& dialer_;
  const std::size_t candidate_;
  bool connected_ = false;
  bool challenged_ = false;  // the Challenge has arrived and the Hello was sent
  wire::Challenge challenge_{};
  wire::Hello hello_{};
  std::array<std::byte, std::max(sizeof(wire::Challenge), sizeof(wire::Welcome))> bytes_{};
  std::size_t received_ = 0;
};

Dialer::Dialer(Reactor& reactor, const Config& config, const HandshakeSides& sides,
               std::vector<SocketAddress> candidates, Endpoint& owner)
    : Source(reactor),
      config_(config),
      sides_(sides),
      candidates_(std::move(candidates)),
      outcomes_(candidates_.size()),
      owner_(owner) {}

Dialer::~Dialer() = default;

void Dialer::start() noexcept {
  began_ns_ = now_ns();
  give_up_ns_ = began_ns_ + in_ns(config_.connect_timeout);
  start_next();
}

void Dialer::start_next() noexcept {
  while (next_ < candidates_.size()) {
    auto attempt = std::make_unique<Attempt>(reactor(), *this, next_++);
    if (const auto started = attempt->start(); !started) {
      outcomes_[attempt->candidate()] = started.error();
      continue;
    }
    attempts_.push_back(std::move(attempt));
    const std::uint64_t next_at = next_ < candidates_.size() ? now_ns() + in_ns(config_.stagger) : give_up_ns_;
    return set_deadline(std::min(next_at, give_up_ns_));
  }
  // The deadline calls the owner, since start() must not.
  set_deadline(attempts_.empty() ? now_ns() : give_up_ns_);
}

void Dialer::on_deadline() noexcept {
  if (now_ns() >= give_up_ns_) {
    // If a host has accepted the connection, its process may be busy: welcome_timeout applies to such attempts.
    std::erase_if(attempts_, [](const auto& attempt) { return !attempt->connected(); });
    const std::uint64_t later = began_ns_ + in_ns(config_.welcome_timeout);
    if (!attempts_.empty() && now_ns() < later) {
      give_up_ns_ = later;
      return set_deadline(later);
    }
    return owner_.on_unreachable({Errc::unreachable, ETIMEDOUT, "tcp connect: no address of the peer answered in time",
                                  (now_ns() - began_ns_) / 1'000'000});
  }
  if (next_ == candidates_.size() && attempts_.empty()) return end_of_pass();
  start_next();
}

void Dialer::end_of_pass() noexcept {
  if (some_transient_ && ++passes_ < kMostPasses) {
    some_transient_ = false;
    next_ = 0;
    return set_deadline(now_ns() + (kFirstPauseNs << (passes_ - 1)));
  }
  // The most specific error: the first with another code than unreachable, else the last.
  Error why{Errc::unreachable, 0, "tcp connect: the peer has no address"};
  for (const Error& outcome : outcomes_) {
    if (why.code == Errc::unreachable) why = outcome;
  }
  owner_.on_unreachable(why);
}

void Dialer::failed(Attempt& attempt, const Error& why, bool transient) noexcept {
  outcomes_[attempt.candidate()] = why;
  if (transient) {
    some_transient_ = true;
    give_up_ns_ = std::max(give_up_ns_, now_ns() + in_ns(config_.connect_timeout));
  }
  std::erase_if(attempts_, [&](const auto& mine) { return mine.get() == &attempt; });
  if (next_ < candidates_.size() || attempts_.empty()) set_deadline(now_ns());
}

std::string Dialer::describe() const {
  std::string text;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const Error& outcome = outcomes_[i];
    const bool started = i < next_ || passes_ > 0;
    text += fmt::format("{}{}: {}", i == 0 ? "" : "; ", to_string(candidates_[i]),
                        outcome.code != Errc{} ? opal::to_string(outcome)
                        : started              ? "no answer yet"
                                               : "not tried yet");
  }
  return text;
}

}  // namespace opal::btl::tcp
