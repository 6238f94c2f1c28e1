// SPDX-License-Identifier: Apache-2.0
// tests/campaign/symbols.hpp — where a function lies in a library or program, from its symbol table.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace opal::campaign {

/// The offset of `function` (qualified, without unnamed namespaces and parameters) in the file at `path`; empty when no
/// function or several have that name.  Runs nm(1) once per file.
std::optional<std::uintptr_t> offset_of(const std::string& path, const std::string& function);

}  // namespace opal::campaign
