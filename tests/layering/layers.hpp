// SPDX-License-Identifier: Apache-2.0
// tests/layering/layers.hpp — the rules of dependency between folders, and the check of a tree of sources against them:
// a table of allowed edges between layers; and no cycle between any folders, also inside a layer.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace opal::layering {

/// One include line of one file.
struct Include {
  std::string file;    ///< relative to the root, e.g. "opal/btl/sm/module.cpp"
  std::size_t line;    ///< from 1
  std::string target;  ///< as written between the quotes or angle brackets
  bool quoted;
};

/// The folder of the table that `path` belongs to: "opal/core", "opal/btl", "opal/btl/sm", "runtime" ...; empty when
/// the table does not know it.
std::string layer_of(std::string_view path);

/// Why `include` is forbidden; nothing when it is fine.
std::optional<std::string> objection(const Include& include);

/// Every include line of the text of `file`.
std::vector<Include> includes_of(const std::string& file, std::string_view text);

/// The violations below opal/, runtime/ and mpi_shim/ of `root`, one line each: forbidden includes, sources that do not
/// include their own header first, folders that include each other, and folders with too many files.
std::vector<std::string> check_tree(const std::filesystem::path& root);

}  // namespace opal::layering
