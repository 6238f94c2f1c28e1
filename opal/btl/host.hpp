// SPDX-License-Identifier: Apache-2.0
// opal/btl/host.hpp — what a module is given by whoever opens it (a Context, or a test): identity, handlers, memory,
// and somebody to tell.  Owned by the opener and valid until the module is destroyed.
#pragma once
#include "opal/btl/handlers.hpp"
#include "opal/btl/peer_id.hpp"
#include "opal/btl/registration_table.hpp"
#include "opal/core/error.hpp"
#include "opal/core/secret.hpp"

namespace opal::btl {

class Endpoint;

/// Events a module reports upward, always from inside progress(), connect() or a post.
class Observer {
 public:
  /// A peer connected to us; the endpoint can be used at once.  Not called for endpoints that connect() returned.
  virtual void on_accepted(Endpoint& endpoint) noexcept = 0;
  /// The peer died or broke the protocol.  Every operation pending on the endpoint has been completed with an error
  /// before; called once per endpoint.  The endpoint stays allocated until disconnect(), which must not be called here.
  virtual void on_failed(Endpoint& endpoint, const Error& why) noexcept = 0;

 protected:
  ~Observer() = default;
};

struct Host {
  PeerId id;  ///< this side's identity, the same for all modules of a Context
  HandlerTable& handlers;
  RegistrationTable& registrations;
  Observer& observer;
  Secret secret{};  ///< of the job: peers that connect must prove that they know it
};

}  // namespace opal::btl
