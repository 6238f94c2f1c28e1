// SPDX-License-Identifier: Apache-2.0
// opal/btl/component.hpp — the registry's record of a transport: constants and two plain functions.
// A new field needs a default value, so that existing transports compile unchanged.
#pragma once
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "opal/btl/module.hpp"
#include "opal/core/config/store.hpp"
#include "opal/core/result.hpp"

namespace opal::btl {

/// The farthest peers that a transport can reach.
enum class Reach : std::uint8_t {
  itself,   ///< the one Context that opened it
  process,  ///< other Contexts of the same process
  others,   ///< other processes
};

using Modules = std::vector<std::unique_ptr<Module>>;  ///< one per device or rail; most transports have one

/// Makes a list of the one module, or passes its error on; for Component::open of a transport with one module.
template <class M>
Result<Modules> only(Result<std::unique_ptr<M>> module) {
  if (!module) return module.error();
  Modules modules;
  modules.push_back(std::move(*module));
  return modules;
}

/// The defaults of a Component's functions.
inline Result<void> always_usable(const config::Store& /*store*/) noexcept { return {}; }
inline Result<Modules> open_nothing(const ModuleParameters& /*parameters*/, const config::Store& /*store*/) {
  return Error{Errc::not_supported, 0, "the component has no open function"};
}

struct Component {
  std::string_view name;     ///< as in `--btl NAME` and in addresses: [a-z0-9]{1,15}
  std::string_view summary;  ///< one line for the user
  std::uint32_t exclusivity =
      0;  ///< the highest that reaches a peer is used: self > smcuda > sm > verbs > ofi > portals4 > tcp
  const config::GroupInfo* vars = nullptr;  ///< its configuration variables
  Reach reach = Reach::others;
  /// Checks whether this process can use the transport on this host.  Opens no module.  The error is the reason for the
  /// user, e.g. "no /dev/infiniband".
  Result<void> (*usable)(const config::Store& store) noexcept = &always_usable;
  /// Opens the modules of one Context.  `parameters` refers to objects that outlive the modules.
  Result<Modules> (*open)(const ModuleParameters& parameters, const config::Store& store) = &open_nothing;
};

}  // namespace opal::btl
