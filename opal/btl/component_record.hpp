// SPDX-License-Identifier: Apache-2.0
// opal/btl/component_record.hpp — the record by which a shared object offers a transport to libopal, which loads it
// from a directory of the variable am_component_path (opal/am/components.hpp).  Its source has one constant:
//   const opal::btl::ComponentRecord opal_component{.component = &kComponent};
#pragma once
#include "opal/btl/component.hpp"
#include "opal/core/export.hpp"

namespace opal::btl {

/// Version of the binary interface between libopal and loaded components.  Increment it with every change of a public
/// class or struct that a component uses (Component, ModuleParameters, Module, Endpoint, the bases in opal/btl/shared):
/// a field, a virtual function, their order.
inline constexpr std::uint32_t kComponentAbi = 5;

/// The two fields keep their places in all versions: libopal reads `abi` before anything else.
struct ComponentRecord {
  std::uint32_t abi = kComponentAbi;     ///< the version that the component was compiled with
  const Component* component = nullptr;  ///< valid until the process ends: components are never unloaded
};

/// Name of the record in the symbol table of the shared object.
inline constexpr const char* kRecordSymbol = "opal_component";

}  // namespace opal::btl

/// Defined by the component, not by libopal.
extern "C" OPAL_EXPORT const opal::btl::ComponentRecord opal_component;  // NOLINT(readability-identifier-naming)
