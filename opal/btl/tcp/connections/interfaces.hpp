// SPDX-License-Identifier: Apache-2.0
// opal/btl/tcp/connections/interfaces.hpp — which of this host's addresses a module publishes.
// A filter is a list of interface names and networks separated by commas: "eth0,10.1.0.0/16,fd00::/8".
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "opal/btl/tcp/connections/address.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"

namespace opal::btl::tcp {

struct Interface {
  std::string name;
  SocketAddress address;  ///< port 0
};

class OPAL_EXPORT InterfaceFilter {
 public:
  /// Errors: invalid_argument (an entry with '/' that is not a network).
  static Result<InterfaceFilter> parse(std::string_view text);

  [[nodiscard]] bool empty() const noexcept { return names_.empty() && networks_.empty(); }
  [[nodiscard]] bool matches(const Interface& interface) const noexcept;

 private:
  struct Network {
    SocketAddress base;
    unsigned bits;  ///< of the 128
  };
  std::vector<std::string> names_;
  std::vector<Network> networks_;
};

/// Every address of an interface that is up; without link-local ones, which need a scope that a peer cannot know.
Result<std::vector<Interface>> local_interfaces();

/// The addresses to publish.  Loopback only if it is asked for, or if there is nothing else.
OPAL_EXPORT std::vector<Interface> select(const std::vector<Interface>& all, const InterfaceFilter& include,
                                          const InterfaceFilter& exclude);

}  // namespace opal::btl::tcp
