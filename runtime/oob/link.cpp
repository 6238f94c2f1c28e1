// SPDX-License-Identifier: Apache-2.0
#include "runtime/oob/link.hpp"

#include <unistd.h>

#include <algorithm>
#include <optional>

#include "opal/core/environment.hpp"
#include "opal/core/log.hpp"
#include "runtime/oob/connection.hpp"
#include "runtime/variables.hpp"

namespace runtime::oob {

struct Link::State final : Upgrader {
  State(opal::am::Context& with, opal::am::Endpoint& to)
      : context(with), endpoint(to), connection(to, Connection::Role::asks, *this) {}

  opal::am::Context& context;
  opal::am::Endpoint& endpoint;
  Connection connection;
  bool welcome = false;
  std::string refusal;
  ByteSpan expected_echo;
  std::optional<bool> echo_same;  // nothing: no echo has come

  void on_piece(opal::btl::Delivery& delivery) noexcept;
  void step();
  template <class Condition>
  Result<bool> wait(Condition condition);

  // Upgrader: of this process's one Context.  The daemon never asks.
  ByteSpan upgrade_address() override { return {}; }
  opal::am::Endpoint* connect_upgrade(ByteSpan address, const opal::am::Endpoint& base) override {
    return connect_if_better(context, address, base);
  }
  void disconnect_upgrade(opal::am::Endpoint& upgrade) override { context.disconnect(upgrade); }
};

void Link::State::on_piece(opal::btl::Delivery& delivery) noexcept {
  opal::am::Endpoint& from = opal::am::sender(delivery);
  if (&from != &endpoint && &from != connection.upgrade()) return;  // only the daemon has something to say here
  const auto message = connection.receive(from, delivery.data);
  if (!message) return opal::log::warn("runtime", "message of the daemon: {}", opal::to_string(message.error()));
  if (*message == nullptr) return;
  const ByteSpan content = (*message)->content;
  switch ((*message)->topic) {
    case Topic::welcome: welcome = true; return;
    case Topic::refused: refusal = std::string{as_text(content)}; return;
    case Topic::echo_reply:
      echo_same = std::equal(content.begin(), content.end(), expected_echo.begin(), expected_echo.end());
      return;
    default: return;
  }
}

/// Whatever the connection has to do outside of progress(); handlers, which another thread may run, stand back.
void Link::State::step() {
  const opal::am::Lock::Guard guard{context.lock()};
  if (connection.needs_step()) connection.step();
  if (connection.stream().blocked()) (void)connection.stream().advance();
}

/// Waits until the condition, which is looked at under the Context's lock, holds, or for kTimeout; whether it holds.
/// Errors: why the daemon is out of reach.
template <class Condition>
Result<bool> Link::State::wait(Condition condition) {
  const opal::Deadline deadline = opal::Deadline::after(kTimeout);
  bool holds = false;
  bool alive = true;
  const auto something = [&] {
    holds = condition();
    alive = connection.alive();
    return holds || connection.needs_step() || connection.stream().blocked();
  };
  while (context.wait_until(something, std::chrono::milliseconds{deadline.poll_timeout_ms()})) {
    if (holds) return true;
    if (!alive) return endpoint.error();
    step();
    if (context.progress() == 0) opal::cpu_relax();
  }
  return false;
}

Link::Link(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}

Link::~Link() {
  state_->context.clear_handler(kActiveMessageTag);
  state_->connection.end();
}

Result<std::unique_ptr<Link>> Link::open(opal::am::Context& context, unsigned rank) {
  const auto address = opal::environment(kDaemonVariable);
  const auto job_id = opal::environment(kJobIdVariable);
  if (!address || !job_id) return Error{Errc::not_supported, 0, "oob: not started by opalrun"};
  OPAL_TRY_ASSIGN(const std::string blob, from_hex(*address));
  OPAL_TRY_ASSIGN(opal::am::Endpoint * daemon, context.connect(as_bytes(blob)));
  std::unique_ptr<Link> link{new Link{std::make_unique<State>(context, *daemon)}};
  State& state = *link->state_;
  OPAL_TRY(context.set_handler(kActiveMessageTag, opal::btl::bind<&State::on_piece>(state, "runtime oob")));
  const Hello hello{rank, static_cast<std::uint32_t>(::getpid())};
  std::string content{as_text(opal::bytes_of(hello))};
  content += *job_id;
  OPAL_TRY(link->send(Topic::hello, as_bytes(content)));
  OPAL_TRY_ASSIGN(const bool answered, state.wait([&] { return state.welcome || !state.refusal.empty(); }));
  if (state.welcome) return link;
  if (answered) {
    opal::log::warn("runtime", "the daemon refuses this rank: {}", state.refusal);
    return Error{Errc::permission, 0, "oob: the daemon refuses this rank"};
  }
  return Error{Errc::timed_out, 0, "oob: no welcome from the daemon"};
}

Result<void> Link::send(Topic topic, ByteSpan content) {
  {
    const opal::am::Lock::Guard guard{state_->context.lock()};
    OPAL_TRY(state_->connection.stream().send(topic, content));
  }
  OPAL_TRY_ASSIGN(const bool taken, state_->wait([this] { return state_->connection.stream().idle(); }));
  if (!taken) return Error{Errc::timed_out, 0, "oob: the daemon takes nothing"};
  return {};
}

Result<void> Link::echo(ByteSpan content) {
  state_->expected_echo = content;
  state_->echo_same.reset();
  OPAL_TRY(send(Topic::echo, content));
  OPAL_TRY_ASSIGN(const bool came, state_->wait([this] { return state_->echo_same.has_value(); }));
  if (!came) return Error{Errc::timed_out, 0, "oob: no echo"};
  if (!*state_->echo_same) return Error{Errc::protocol, 0, "oob: the echo differs", content.size()};
  return {};
}

opal::am::Endpoint& Link::endpoint() const noexcept {
  const opal::am::Lock::Guard guard{state_->context.lock()};
  opal::am::Endpoint* const current = state_->connection.stream().current();
  return current != nullptr ? *current : state_->endpoint;
}

}  // namespace runtime::oob
