// SPDX-License-Identifier: Apache-2.0
// opal/btl/tcp/connections/interfaces.hpp — selects the addresses of this host that a module publishes.
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
  /// An entry with '/' is a network, any other an interface name.  Empty entries are ignored.
  /// Errors: invalid_argument (not a network).
  static Result<InterfaceFilter> parse(std::string_view text);

  [[nodiscard]] bool empty() const noexcept { return names_.empty() && networks_.empty(); }
  /// True if the name or a network of the filter matches.  An empty filter matches nothing.
  [[nodiscard]] bool matches(const Interface& interface) const noexcept;

 private:
  struct Network {
    SocketAddress base;
    unsigned bits;  ///< length of the prefix in the v4-mapped or IPv6 address, 0 to 128
  };
  std::vector<std::string> names_;
  std::vector<Network> networks_;
};

/// The addresses of all interfaces that are up, without link-local ones, which need a scope.  Errors: os.
Result<std::vector<Interface>> local_interfaces();

/// The addresses to publish: those that `include` matches (empty: all) and `exclude` does not.  Loopback addresses come
/// last, and only if `include` matches them or there is no other address.
OPAL_EXPORT std::vector<Interface> select(const std::vector<Interface>& all, const InterfaceFilter& include,
                                          const InterfaceFilter& exclude);

}  // namespace opal::btl::tcp
