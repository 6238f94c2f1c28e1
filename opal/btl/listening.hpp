// SPDX-License-Identifier: Apache-2.0
// opal/btl/listening.hpp — additional interface of a module that listens at addresses of the host: found by
// dynamic_cast.
#pragma once
#include <sys/socket.h>

#include "opal/core/result.hpp"

namespace opal::btl {

class Listening {
 public:
  /// Restricts the module to the host address in `address`, at a port of its own.  No effect if the user has chosen
  /// interfaces or `address` is the wildcard.  Module::address() changes; an address published before is invalid.
  /// Errors: those of opening the module; it then listens where it did before.
  virtual Result<void> listen_only_at(const sockaddr& address) = 0;

 protected:
  ~Listening() = default;
};

}  // namespace opal::btl
