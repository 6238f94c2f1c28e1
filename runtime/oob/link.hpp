// SPDX-License-Identifier: Apache-2.0
// runtime/oob/link.hpp — a rank's end of the out-of-band channel to the daemon that launched it.
// Uses a Context that the rank has anyway, with tcp unless the daemon has it neither, and one endpoint of it; a second
// one, by a better transport, once the link has carried some messages.  Threads: as the Context's thread level says,
// one call at a time; not from inside handlers.  The Context must outlive the Link.
#pragma once
#include <chrono>
#include <memory>
#include <string>

#include "opal/am/context.hpp"
#include "opal/core/export.hpp"
#include "runtime/oob/wire.hpp"

namespace runtime::oob {

class OPAL_EXPORT Link {
 public:
  static constexpr std::chrono::seconds kTimeout{30};

  /// Connects to the daemon named in the environment and waits for its welcome.  Errors: not_supported (this process
  /// was not started by opalrun), protocol, permission (the daemon refused), timed_out, unreachable.
  static Result<std::unique_ptr<Link>> open(opal::am::Context& context, unsigned rank);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// Sends a message; progresses the Context while the transport is full.  Errors: limit_reached, peer_gone, timed_out.
  Result<void> send(Topic topic, ByteSpan content);

  /// Sends `content` to the daemon and waits until it came back.  Errors: as send, and protocol (it came back changed).
  Result<void> echo(ByteSpan content);

  /// The endpoint in use, for explain() and its transport; another one after a change.
  [[nodiscard]] opal::am::Endpoint& endpoint() const noexcept;

 private:
  struct State;
  explicit Link(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace runtime::oob
