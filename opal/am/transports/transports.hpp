// SPDX-License-Identifier: Apache-2.0
// opal/am/transports/transports.hpp — the modules a Context has opened, the ones it could not, and the choice among
// them. Owned by the Context; not thread safe beyond it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "opal/btl/registry.hpp"
#include "opal/core/config/store.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"

namespace opal::am {

/// Which transports a list like "self,tcp" or "^tcp" allows.
class OPAL_EXPORT TransportFilter {
 public:
  /// Errors: invalid_argument (a name the registry does not have; logged with the known ones).
  static Result<TransportFilter> parse(std::string_view list, const btl::Registry& registry);
  [[nodiscard]] bool allows(const btl::Component& component) const;

 private:
  std::vector<std::string> names_;
  bool exclude_ = true;  // the empty list excludes nothing
};

struct Refused {
  std::string_view transport;
  std::string reason;
};

struct Transports {
  std::vector<std::unique_ptr<btl::Module>> modules;  ///< highest exclusivity first
  std::vector<Refused> refused;

  /// Opens what the filter allows and this machine has.  A transport that does not open is refused, never fatal.
  static Transports open(const btl::Host& host, const config::Store& store, const btl::Registry& registry,
                         const TransportFilter& filter);
};

}  // namespace opal::am
