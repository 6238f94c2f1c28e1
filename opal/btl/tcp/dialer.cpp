// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/tcp/dialer.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "opal/btl/tcp/sockets.hpp"
#include "opal/core/clock.hpp"

namespace opal::btl::tcp {
namespace {

constexpr unsigned kMostRounds = 5;
constexpr std::uint64_t kFirstPauseNs = 50'000'000;

std::uint64_t in_ns(std::chrono::milliseconds time) noexcept {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds{time}.count());
}

}  // namespace

/// One address being tried.
class Attempt final : public Source {
 public:
  Attempt(Reactor& reactor, Dialer& dialer, std::size_t candidate) noexcept
      : Source(reactor), dialer_(dialer), candidate_(candidate) {}

  [[nodiscard]] std::size_t candidate() const noexcept { return candidate_; }
  [[nodiscard]] bool greeted() const noexcept { return greeted_; }

  Result<void> start() noexcept {
    OPAL_TRY_ASSIGN(Fd fd, start_connect(dialer_.config_, dialer_.candidates_[candidate_]));
    OPAL_TRY(watch(std::move(fd)));
    return greet();
  }

  void on_ready() noexcept override {
    if (!greeted_) {
      if (!writable && !ended) return;
      if (const auto greeted = greet(); !greeted) return dialer_.failed(*this, greeted.error(), false);
      if (!greeted_) return;
    }
    if (!readable) return;
    while (received_ < welcome_.size()) {
      const std::int64_t got = receive_some(fd(), MutableBytes{welcome_}.subspan(received_));
      if (got == -EAGAIN) {
        readable = false;
        return;
      }
      if (got <= 0) {
        const Error why{Errc::unreachable, static_cast<int>(-got), "tcp greeting: closed without an answer"};
        return dialer_.failed(*this, why, true);
      }
      received_ += static_cast<std::size_t>(got);
    }
    read_welcome();
  }

 private:
  /// Says Hello; not an error if the connection does not stand yet.
  Result<void> greet() noexcept {
    int error = 0;
    socklen_t length = sizeof error;
    if (::getsockopt(fd(), SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error != 0) {
      return Error{Errc::unreachable, error, "connect(tcp)"};
    }
    const ByteSpan hello = bytes_of(dialer_.hello_);
    iovec vector{const_cast<std::byte*>(hello.data()), hello.size()};
    const std::int64_t sent = send_some(fd(), &vector, 1);
    if (sent == 0 || sent == -ENOTCONN) {
      writable = false;
      return {};
    }
    // A fresh connection takes 48 bytes whole.
    if (sent != static_cast<std::int64_t>(hello.size())) {
      return Error{Errc::unreachable, sent < 0 ? static_cast<int>(-sent) : 0, "tcp greeting: send"};
    }
    greeted_ = true;
    return {};
  }

  void read_welcome() noexcept {
    wire::Welcome welcome{};
    std::memcpy(&welcome, welcome_.data(), sizeof welcome);
    const bool ours = welcome.magic == wire::kWelcomeMagic && welcome.from == dialer_.hello_.to;
    if (!ours) return dialer_.failed(*this, {Errc::unreachable, 0, "tcp greeting: somebody else answered"}, false);
    if (welcome.version != wire::kWireVersion) {
      return dialer_.failed(*this, {Errc::version_mismatch, 0, "tcp greeting", welcome.version}, false);
    }
    if (welcome.code != 0) {
      const bool known = welcome.code <= static_cast<std::uint64_t>(Errc::internal);
      const Errc code = known ? static_cast<Errc>(welcome.code) : Errc::protocol;
      return dialer_.failed(*this, {code, 0, "tcp greeting: refused by the peer", welcome.code}, false);
    }
    if (welcome.max_send > kLargestMaxSend.bytes) {
      return dialer_.failed(*this, {Errc::protocol, 0, "tcp greeting: absurd message size", welcome.max_send}, false);
    }
    dialer_.welcomed(*this, welcome);
  }

  Dialer& dialer_;
  const std::size_t candidate_;
  bool greeted_ = false;
  std::array<std::byte, sizeof(wire::Welcome)> welcome_{};
  std::size_t received_ = 0;
};

Dialer::Dialer(Reactor& reactor, const Config& config, const wire::Hello& hello, std::vector<SocketAddress> candidates,
               Owner& owner)
    : Source(reactor),
      config_(config),
      hello_(hello),
      candidates_(std::move(candidates)),
      outcomes_(candidates_.size()),
      owner_(owner) {}

Dialer::~Dialer() = default;

void Dialer::start() noexcept {
  began_ns_ = now_ns();
  give_up_ns_ = began_ns_ + in_ns(config_.connect_timeout);
  start_next();
}

void Dialer::record(std::size_t candidate, const Error& why) noexcept {
  outcomes_[candidate] = {why, now_ns() - began_ns_};
}

void Dialer::start_next() noexcept {
  while (next_ < candidates_.size()) {
    auto attempt = std::make_unique<Attempt>(reactor(), *this, next_++);
    if (const auto started = attempt->start(); !started) {
      record(attempt->candidate(), started.error());
      continue;
    }
    attempts_.push_back(std::move(attempt));
    const std::uint64_t next_at = next_ < candidates_.size() ? now_ns() + in_ns(config_.stagger) : give_up_ns_;
    return set_deadline(std::min(next_at, give_up_ns_));
  }
  // Through the clock, so that the owner is never called from inside start().
  set_deadline(attempts_.empty() ? now_ns() : give_up_ns_);
}

void Dialer::on_deadline() noexcept {
  if (now_ns() >= give_up_ns_) {
    // Where a host has answered, the peer may just be busy; its own patience is another one.
    std::erase_if(attempts_, [](const auto& attempt) { return !attempt->greeted(); });
    const std::uint64_t later = began_ns_ + in_ns(config_.welcome_timeout);
    if (!attempts_.empty() && now_ns() < later) {
      give_up_ns_ = later;
      return set_deadline(later);
    }
    return owner_.on_unreachable({Errc::unreachable, ETIMEDOUT, "tcp connect: no address of the peer answered in time",
                                  (now_ns() - began_ns_) / 1'000'000});
  }
  if (next_ == candidates_.size() && attempts_.empty()) return end_of_round();
  start_next();
}

void Dialer::end_of_round() noexcept {
  if (worth_another_round_ && ++rounds_ < kMostRounds) {
    worth_another_round_ = false;
    next_ = 0;
    return set_deadline(now_ns() + (kFirstPauseNs << rounds_));
  }
  // The most telling of the errors: anything an OPAL peer said itself, else the last one.
  Error why{Errc::unreachable, 0, "tcp connect: the peer has no address"};
  for (const Outcome& outcome : outcomes_) {
    if (why.code == Errc::unreachable) why = outcome.error;
  }
  owner_.on_unreachable(why);
}

void Dialer::failed(Attempt& attempt, const Error& why, bool may_come_again) noexcept {
  record(attempt.candidate(), why);
  worth_another_round_ = worth_another_round_ || may_come_again;
  std::erase_if(attempts_, [&](const auto& mine) { return mine.get() == &attempt; });
  if (next_ < candidates_.size() || attempts_.empty()) set_deadline(now_ns());
}

void Dialer::welcomed(Attempt& attempt, const wire::Welcome& welcome) noexcept {
  owner_.on_connected(attempt.release(), welcome.max_send);
}

std::string Dialer::describe() const {
  std::string text;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const Outcome& outcome = outcomes_[i];
    const bool started = i < next_ || rounds_ > 0;
    text += fmt::format("{}{}: {}", i == 0 ? "" : "; ", to_string(candidates_[i]),
                        outcome.error.code != Errc{} ? opal::to_string(outcome.error)
                        : started                    ? "no answer yet"
                                                     : "not tried yet");
  }
  return text;
}

}  // namespace opal::btl::tcp
