// SPDX-License-Identifier: Apache-2.0
// opal/am/transports/transports.hpp — the modules that a Context has opened, the transports that it has not opened, and
// the filter of am_transports.  A Context owns one Transports; the filter is a value.  Threads: as any values.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "opal/btl/registry.hpp"
#include "opal/core/config/store.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"

namespace opal::am {

/// The explanation for the user of an unknown name.  For a removed transport of Open MPI: what replaces it.
/// Else: the known names.
OPAL_EXPORT std::string why_unknown(std::string_view name, const btl::Registry& registry);

/// The transports that a list like "self,tcp" allows, or all but those of a list like "^tcp".
class OPAL_EXPORT TransportFilter {
 public:
  /// Errors: invalid_argument for a name that the registry does not have; `where` includes why_unknown().
  static Result<TransportFilter> parse(std::string_view list, const btl::Registry& registry);
  [[nodiscard]] bool allows(const btl::Component& component) const;

 private:
  std::vector<std::string> names_;
  bool exclude_ = true;  // the empty list excludes nothing
};

/// A transport that was not opened, and why.
struct Refused {
  std::string_view transport;
  std::string reason;
};

struct Transports {
  std::vector<std::unique_ptr<btl::Module>> modules;  ///< highest exclusivity first
  std::vector<Refused> refused;

  /// Opens each transport that the filter allows and that is usable.  `refused` gets all others, with the reason.
  static Transports open(btl::ModuleParameters parameters, const config::Store& store, const btl::Registry& registry,
                         const TransportFilter& filter);
};

}  // namespace opal::am
