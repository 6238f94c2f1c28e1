// SPDX-License-Identifier: Apache-2.0
// An opald of a later version, as far as its first message: it reads what the launcher wrote on its stdin, joins, and
// ends when it is turned away.  Exits with 0 when it was told why.
#include <fmt/format.h>
#include <unistd.h>

#include <iostream>

#include "opal/core/system/secret.hpp"
#include "runtime/daemon/tree/bootstrap.hpp"
#include "runtime/daemon/tree/messages.hpp"
#include "runtime/oob/daemon.hpp"
#include "runtime/options/options.hpp"

int main() {
  using namespace runtime;
  std::string line;
  std::getline(std::cin, line);
  const auto bootstrap = daemon::from_line(line);
  const auto secret =
      bootstrap ? opal::Secret::from_text(bootstrap->secret) : opal::Result<opal::Secret>{bootstrap.error()};
  auto loop = event::Loop::create();
  if (!secret || !loop) return 2;
  std::string told;
  oob::DaemonHost hooks{.say = [](const std::string&) {}};
  hooks.on_message = [&](opal::am::Endpoint&, oob::Topic topic, const std::string& content) {
    if (topic != daemon::topic(daemon::kKind<daemon::TurnedAway>)) return;
    if (const auto message = unpack<daemon::TurnedAway>(oob::as_bytes(content))) told = message->why;
    (*loop)->stop();
  };
  hooks.on_lost = [&](opal::am::Endpoint&, const Error&) { (*loop)->stop(); };
  const auto oob = oob::Daemon::open(**loop, launch::store_with(bootstrap->settings), *secret, std::move(hooks));
  if (!oob) return 2;
  const auto launcher = (*oob)->connect(oob::as_bytes(bootstrap->launcher));
  if (!launcher) return 2;
  // A later version's message is longer, and has other things after the first two.
  const daemon::Join join{
      .version = daemon::kVersion + 1, .host = bootstrap->host, .pid = 1, .job_id = "j", .address = "a"};
  const std::string message = pack(join) + "and more";
  if (!(*oob)->send(**launcher, daemon::topic(daemon::kKind<daemon::Join>), message)) return 2;
  (*loop)->run();
  return told.find("another version") == std::string::npos ? 1 : 0;
}
