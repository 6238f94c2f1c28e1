// SPDX-License-Identifier: Apache-2.0
// opal/btl/module_parameters.hpp — the parameters of a module, from its opener (a Context, rails, or a test): identity,
// handlers, registrations and an observer.  The opener owns the referenced objects; they must outlive the module.
#pragma once
#include <chrono>

#include "opal/btl/handlers.hpp"
#include "opal/btl/peer_id.hpp"
#include "opal/core/error.hpp"
#include "opal/core/system/secret.hpp"

namespace opal::btl {

class Endpoint;
class RegistrationTable;

/// Receives the connection events of a module.  Runs inside progress(), connect(), disconnect() or a post of it.
class Observer {
 public:
  /// A peer has connected to this side.  The endpoint can be used at once.  Not called for an endpoint that connect()
  /// has returned.
  virtual void on_accepted(Endpoint& endpoint) noexcept = 0;
  /// The peer has disconnected, died or broken the protocol.  Called at most once per endpoint, after every operation
  /// pending on it has completed with an error.  The endpoint stays allocated until disconnect(), which must not be
  /// called here.
  virtual void on_failed(Endpoint& endpoint, const Error& why) noexcept = 0;

 protected:
  ~Observer() = default;
};

struct ModuleParameters {
  PeerId id;  ///< this side's identity, the same for all modules of a Context
  HandlerTable& handlers;
  RegistrationTable& registrations;
  Observer& observer;
  Secret secret{};  ///< of the job; both sides of a connection prove that they know it
  /// The host has more processes than cores, so a peer may not be running.  sm then has no cooperative transfers, and
  /// its senders execute fences themselves (asymmetric_fence.hpp).  Other transports ignore it.
  bool cores_shared = false;
  std::uint32_t exclusivity = 0;                      ///< Component::exclusivity of the transport
  std::chrono::milliseconds connect_timeout{30'000};  ///< a peer without an answer for that long is unreachable
};

}  // namespace opal::btl
