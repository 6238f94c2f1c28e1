// SPDX-License-Identifier: Apache-2.0
// opal/btl/listening.hpp — an interface of modules that listen at addresses of the host (tcp).  The opener finds it by
// dynamic_cast from btl::Module.  Threads: as btl::Module.
#pragma once
#include <sys/socket.h>

#include "opal/core/result.hpp"

namespace opal::btl {

class Listening {
 public:
  /// Restricts the module to the IP address in `address`; its port is ignored, the module chooses one itself.  Does
  /// nothing if the user has chosen interfaces or `address` is the wildcard.
  /// Module::address() changes.  Connections to an address published before are refused.
  /// Errors: as opening the module, and not_supported (neither IPv4 nor IPv6).
  virtual Result<void> listen_only_at(const sockaddr& address) = 0;

 protected:
  ~Listening() = default;
};

}  // namespace opal::btl
