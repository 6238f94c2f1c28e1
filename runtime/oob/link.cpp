// SPDX-License-Identifier: Apache-2.0
#include "runtime/oob/link.hpp"

#include <unistd.h>

#include <algorithm>

#include "opal/core/environment.hpp"
#include "opal/core/log.hpp"
#include "runtime/oob/sender.hpp"
#include "runtime/variables.hpp"

namespace runtime::oob {

struct Link::State {
  State(opal::am::Context& with, opal::am::Endpoint& to) : context(with), endpoint(to), sender(to) {}

  opal::am::Context& context;
  opal::am::Endpoint& endpoint;
  Sender sender;
  Assembler assembler;
  bool welcome = false;
  std::string refusal;
  ByteSpan expected_echo;
  bool echo_came = false;
  bool echo_same = false;
  std::function<void(Topic, ByteSpan)> on_message = [](Topic, ByteSpan) {};

  void on_piece(opal::btl::Delivery& delivery) noexcept;
  Result<void> flush();
};

void Link::State::on_piece(opal::btl::Delivery& delivery) noexcept {
  if (&opal::am::sender(delivery) != &endpoint) return;  // only the daemon has something to say here
  const auto message = assembler.add(delivery.data);
  if (!message) return opal::log::warn("runtime", "message of the daemon: {}", opal::to_string(message.error()));
  if (*message == nullptr) return;
  const ByteSpan content = (*message)->content;
  switch ((*message)->topic) {
    case Topic::welcome: welcome = true; return;
    case Topic::refused: refusal = std::string{as_text(content)}; return;
    case Topic::echo_reply:
      echo_same = std::equal(content.begin(), content.end(), expected_echo.begin(), expected_echo.end());
      echo_came = true;
      return;
    default:
      if ((*message)->topic >= Topic::user) on_message((*message)->topic, content);
      return;
  }
}

/// Until the transport has taken everything.
Result<void> Link::State::flush() {
  const opal::Deadline deadline = opal::Deadline::after(kPatience);
  while (true) {
    OPAL_TRY_ASSIGN(const bool done, sender.advance());
    if (done) return {};
    if (deadline.expired()) return Error{Errc::timed_out, 0, "oob: the daemon takes nothing"};
    if (context.progress() == 0) opal::cpu_relax();
  }
}

Link::Link(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}

Link::~Link() { state_->context.clear_handler(kActiveMessageTag); }

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
  context.wait_until([&] { return state.welcome || !state.refusal.empty() || state.endpoint.dead(); }, kPatience);
  if (state.welcome) return link;
  if (!state.refusal.empty()) {
    opal::log::warn("runtime", "the daemon refuses this rank: {}", state.refusal);
    return Error{Errc::permission, 0, "oob: the daemon refuses this rank"};
  }
  if (state.endpoint.dead()) return state.endpoint.error();
  return Error{Errc::timed_out, 0, "oob: no welcome from the daemon"};
}

Result<void> Link::send(Topic topic, ByteSpan content) {
  OPAL_TRY(state_->sender.send(topic, content));
  return state_->flush();
}

Result<void> Link::echo(ByteSpan content) {
  state_->expected_echo = content;
  state_->echo_came = false;
  OPAL_TRY(send(Topic::echo, content));
  state_->context.wait_until([&] { return state_->echo_came || state_->endpoint.dead(); }, kPatience);
  if (!state_->echo_came) {
    if (state_->endpoint.dead()) return state_->endpoint.error();
    return Error{Errc::timed_out, 0, "oob: no echo"};
  }
  if (!state_->echo_same) return Error{Errc::protocol, 0, "oob: the echo differs", content.size()};
  return {};
}

Result<void> Link::abort(std::int32_t status, std::string_view reason) {
  std::string content{as_text(opal::bytes_of(status))};
  content += reason;
  return send(Topic::abort, as_bytes(content));
}

void Link::on_message(std::function<void(Topic, ByteSpan)> handler) { state_->on_message = std::move(handler); }

opal::am::Endpoint& Link::endpoint() const noexcept { return state_->endpoint; }

}  // namespace runtime::oob
