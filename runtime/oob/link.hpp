// SPDX-License-Identifier: Apache-2.0
// runtime/oob/link.hpp — a rank's end of the out-of-band channel to the daemon that launched it.
// It uses a Context of the rank, which must outlive the Link and must allow tcp if the daemon does.  The link begins on
// one endpoint (tcp) and moves to a second one, of a better transport, after some messages.
// Threads: as the Context's thread level says; one call at a time; not from inside handlers.
#pragma once
#include <chrono>
#include <memory>

#include "opal/am/context.hpp"
#include "opal/core/export.hpp"
#include "runtime/oob/wire.hpp"

namespace runtime::oob {

class OPAL_EXPORT Link {
 public:
  static constexpr std::chrono::seconds kTimeout{30};  ///< of each wait for the daemon

  /// Connects to the daemon named in the environment, sends Hello and waits for the welcome.  Installs the handler of
  /// kActiveMessageTag in `context`.  Errors: not_supported (this process was not started by opalrun), protocol,
  /// permission (the daemon refused), timed_out, those of am::Context::connect.
  static Result<std::unique_ptr<Link>> open(opal::am::Context& context, unsigned rank);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// Sends a message and progresses the Context until a transport has taken it.  Errors: limit_reached, peer_gone,
  /// timed_out.
  Result<void> send(Topic topic, ByteSpan content);

  /// Sends `content` to the daemon and waits for the echo.  Errors: as send(), and protocol (the echo differs).
  Result<void> echo(ByteSpan content);

  /// The endpoint in use.  It changes with a transport upgrade; the reference is valid until the next call.
  [[nodiscard]] opal::am::Endpoint& endpoint() const noexcept;

 private:
  struct State;
  explicit Link(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace runtime::oob
