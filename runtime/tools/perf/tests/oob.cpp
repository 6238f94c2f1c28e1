// SPDX-License-Identifier: Apache-2.0
// The out-of-band channel: messages between two daemons, one in each process.  Each sleeps in its event loop until a
// message comes, as in a real job.
#include <fmt/format.h>

#include "runtime/oob/daemon.hpp"
#include "runtime/tools/perf/tests/pairing.hpp"
#include "runtime/tools/perf/tests/tests.hpp"

namespace opal::perf {
namespace {

namespace oob = ::runtime::oob;

constexpr int kLongestUpgrade = 20'000;  // messages until the connection has moved to its transport

class Daemon {
 public:
  /// `answers`: the daemon returns each message.
  static Result<std::unique_ptr<Daemon>> open(const Secret& secret, const std::string& transport, bool answers) {
    std::unique_ptr<Daemon> made{new Daemon};
    OPAL_TRY_ASSIGN(made->loop_, ::runtime::event::Loop::create());
    config::Store store = config::Store::from_environment();
    store.set("am_transports", transport == "tcp" ? "tcp" : "tcp," + transport);
    oob::DaemonHost host{.say = [](const std::string& line) { fmt::print(stderr, "opal-perf: {}\n", line); }};
    host.on_message = [self = made.get(), answers](am::Endpoint& from, oob::Topic, std::string content) {
      if (!answers) return self->loop_->stop();
      if (const auto sent = self->channel_->send(from, oob::Topic::user, std::move(content)); !sent) {
        self->end(sent.error());
      }
    };
    host.on_lost = [self = made.get()](am::Endpoint&, const Error& why) { self->end(why); };
    OPAL_TRY_ASSIGN(made->channel_, oob::Daemon::open(*made->loop_, store, secret, std::move(host)));
    return made;
  }

  [[nodiscard]] ByteSpan address() const noexcept { return channel_->address(); }
  Result<void> connect(ByteSpan address) {
    OPAL_TRY_ASSIGN(peer_, channel_->connect(address));
    return {};
  }
  [[nodiscard]] std::string_view transport() const { return channel_->transport(*peer_); }

  /// Sends `content` and waits for the answer.
  Error there_and_back(const std::string& content) {
    if (const auto sent = channel_->send(*peer_, oob::Topic::user, content); !sent) return sent.error();
    loop_->run();
    return end_;
  }
  /// Answers until the other daemon ends the connection.
  void serve() { loop_->run(); }

 private:
  Daemon() = default;
  void end(const Error& why) {
    end_ = why;
    loop_->stop();
  }

  std::unique_ptr<::runtime::event::Loop> loop_;
  std::unique_ptr<oob::Daemon> channel_;
  am::Endpoint* peer_ = nullptr;
  Error end_{};
};

/// Sends messages until the connection, which begins on tcp, uses `transport`; at least one, so that the other daemon
/// has a connection whose end it sees.
Result<void> upgrade(Daemon& daemon, const std::string& transport) {
  for (int i = 0; i == 0 || (i < kLongestUpgrade && daemon.transport() != transport); ++i) {
    if (const Error error = daemon.there_and_back(std::string(8, 'x')); error.code != Errc{}) return error;
  }
  if (daemon.transport() == transport) return {};
  return Error{Errc::not_supported, 0, "oob_lat: the connection stays on tcp, which OPAL prefers to this transport"};
}

Result<void> measure(Daemon& daemon, const Plan& plan, const Report& report) {
  for (const std::uint64_t size : plan.sizes) {
    const std::string content(size, 'x');
    const Row row{.test = "oob_lat", .btl = std::string{daemon.transport()}, .size = size};
    OPAL_TRY(report_latency(row, plan, report, 2, [&] { return daemon.there_and_back(content); }));
  }
  return {};
}

}  // namespace

Result<void> oob_latency(Pairing& pairing, const std::string& transport, const Plan& plan, const Report& report) {
  const bool answers = pairing.rank() == 1;
  OPAL_TRY_ASSIGN(const auto daemon, Daemon::open(pairing.secret(), transport, answers));
  OPAL_TRY_ASSIGN(const std::vector<std::byte> other, pairing.exchange(daemon->address()));
  if (answers) {
    daemon->serve();
    return {};
  }
  OPAL_TRY(daemon->connect(other));
  OPAL_TRY(upgrade(*daemon, transport));
  return measure(*daemon, plan, report);
}

}  // namespace opal::perf
