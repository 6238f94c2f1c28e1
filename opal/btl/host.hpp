// SPDX-License-Identifier: Apache-2.0
// opal/btl/host.hpp — what the opener (a Context, or a test) gives a module: identity, handlers, registrations and an
// observer.  The opener owns them; they are valid until the module is destroyed.
#pragma once
#include <chrono>

#include "opal/btl/handlers.hpp"
#include "opal/btl/peer_id.hpp"
#include "opal/core/error.hpp"
#include "opal/core/system/secret.hpp"

namespace opal::btl {

class Endpoint;
class RegistrationTable;

/// Receives the events of a module, always from inside progress(), connect(), disconnect() or a post.
class Observer {
 public:
  /// A peer connected to this side.  The endpoint can be used at once.  Not called for endpoints of connect().
  virtual void on_accepted(Endpoint& endpoint) noexcept = 0;
  /// The peer died or broke the protocol.  Called once per endpoint, after every operation pending on it has completed
  /// with an error.  The endpoint stays allocated until disconnect(), which must not be called here.
  virtual void on_failed(Endpoint& endpoint, const Error& why) noexcept = 0;

 protected:
  ~Observer() = default;
};

struct Host {
  PeerId id;  ///< this side's identity, the same for all modules of a Context
  HandlerTable& handlers;
  RegistrationTable& registrations;
  Observer& observer;
  Secret secret{};            ///< of the job: a peer that connects must prove that it knows the secret
  bool cores_shared = false;  ///< processes outnumber cores: a peer may have to wait for our core
  std::chrono::milliseconds connect_timeout{30'000};  ///< a peer that does not answer for so long is unreachable
};

}  // namespace opal::btl
