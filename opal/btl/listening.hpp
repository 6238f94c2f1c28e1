// SPDX-License-Identifier: Apache-2.0
// opal/btl/listening.hpp — what a module that listens at addresses of the host can do besides: found by dynamic_cast.
#pragma once
#include <sys/socket.h>

#include "opal/core/result.hpp"

namespace opal::btl {

class Listening {
 public:
  /// From now on the module listens at the host address in `address` alone, at a port of its own, unless the user has
  /// chosen interfaces or `address` stands for all.  Module::address() changes; one that was published is void.
  /// Errors: as of opening the module; then it listens where it did.
  virtual Result<void> listen_only_at(const sockaddr& address) = 0;

 protected:
  ~Listening() = default;
};

}  // namespace opal::btl
