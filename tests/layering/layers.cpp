// SPDX-License-Identifier: Apache-2.0
#include "tests/layering/layers.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

namespace opal::layering {
namespace {

namespace fs = std::filesystem;

/// A folder and the folders it may include besides itself.  "X+" stands for X and everything X may include.
struct Rule {
  std::string_view layer;
  std::string_view allowed;
};

// The direction of dependency of ARCHITECTURE.md.  A new folder gets a row here, with a reason in ARCHITECTURE.md.
constexpr std::array kRules{
    Rule{"opal/core", ""},
    Rule{"opal/topology", "opal/core"},
    Rule{"opal/memory", "opal/core"},
    Rule{"opal/gpu", "opal/core opal/memory"},
    Rule{"opal/allocator", "opal/core"},
    Rule{"opal/mpool", "opal/allocator+ opal/topology opal/memory opal/gpu"},
    Rule{"opal/rcache", "opal/allocator+ opal/topology opal/memory opal/gpu"},
    Rule{"opal/btl", "opal/mpool+ opal/rcache+"},
    Rule{"opal/btl/shared", "opal/btl+"},
    Rule{"opal/btl/*", "opal/btl/shared+"},
    Rule{"opal/am", "opal/btl/shared+"},
    Rule{"opal/capi", "opal/am+"},
    Rule{"opal/tools", "opal/capi+"},
    Rule{"runtime", "opal/am+"},
    Rule{"runtime/client", "opal/am+ runtime"},
    Rule{"runtime/tools", "opal/am+ runtime/client runtime"},
    Rule{"mpi_shim", "opal/am+ runtime/client"},
};

/// One transport may be built from another one's public interface.
using Composition = std::pair<std::string_view, std::string_view>;
constexpr std::array kCompositions{Composition{"opal/btl/smcuda", "opal/btl/sm"},
                                   Composition{"opal/btl/sim", "opal/btl/rails"},
                                   Composition{"opal/btl/verbs", "opal/btl/rails"}};

constexpr std::array<std::string_view, 3> kRoots{"opal", "runtime", "mpi_shim"};

/// Sources that a folder without sub-folders may have.
constexpr std::size_t kMostFiles = 20;

/// Headers of other projects that only one layer may see.
struct Reserved {
  std::string_view header_prefix;
  std::string_view root;
};
constexpr std::array kReserved{Reserved{"pmix", "runtime"}, Reserved{"mpi.h", "mpi_shim"}, Reserved{"mpi_", "mpi_shim"},
                               Reserved{"event2/", "runtime"}};

bool is_below(std::string_view path, std::string_view folder) {
  return path.size() > folder.size() && path.starts_with(folder) && path[folder.size()] == '/';
}

/// The row of the table for a layer; the transports share one.
const Rule* rule_of(std::string_view layer) {
  const bool component = is_below(layer, "opal/btl") && layer != "opal/btl/shared";
  for (const Rule& rule : kRules) {
    if (rule.layer == (component ? "opal/btl/*" : layer)) return &rule;
  }
  return nullptr;
}

bool may_include(const Rule& rule, std::string_view target) {
  std::istringstream words{std::string{rule.allowed}};
  for (std::string word; words >> word;) {
    const bool transitive = word.back() == '+';
    if (transitive) word.pop_back();
    if (word == target) return true;
    if (!transitive) continue;
    if (const Rule* next = rule_of(word); next != nullptr && may_include(*next, target)) return true;
  }
  return false;
}

std::string_view root_of(std::string_view path) { return path.substr(0, path.find('/')); }

bool is_source(const fs::path& path) {
  constexpr std::array<std::string_view, 6> kExtensions{".hpp", ".cpp", ".h", ".c", ".in", ".def"};
  return std::find(kExtensions.begin(), kExtensions.end(), path.extension().string()) != kExtensions.end();
}

std::string text_of(const fs::path& path) {
  std::ifstream file{path};
  return {std::istreambuf_iterator<char>{file}, std::istreambuf_iterator<char>{}};
}

/// "foo.cpp" beside "foo.hpp" includes that first: so the compiler proves the header to be self-contained.
std::optional<std::string> own_header_objection(const fs::path& root, const std::string& file,
                                                const std::vector<Include>& includes) {
  const fs::path path{file};
  if (path.extension() != ".cpp") return std::nullopt;
  const fs::path header = fs::path{path}.replace_extension(".hpp");
  if (!fs::exists(root / header)) return std::nullopt;
  if (!includes.empty() && includes.front().target == header.string()) return std::nullopt;
  return file + ": the first include is not its own header " + header.string();
}

/// The includes between folders.  A folder with sub-folders includes them, and not the reverse: but its config.hpp and
/// wire.hpp, which declare only values, are nodes of their own that both may include.
class FolderGraph {
 public:
  explicit FolderGraph(const std::map<std::string, std::vector<Include>>& files) {
    for (const auto& [file, includes] : files) {
      for (fs::path folder = fs::path{file}.parent_path().parent_path(); !folder.empty();
           folder = folder.parent_path()) {
        with_sub_folders_.insert(folder.string());
      }
    }
    for (const auto& [file, includes] : files) {
      for (const Include& include : includes) {
        if (files.contains(include.target)) edges_[node_of(file)].emplace(node_of(include.target), &include);
      }
    }
  }

  /// One line for each cycle: its includes.
  [[nodiscard]] std::vector<std::string> cycles() {
    for (const auto& [node, targets] : edges_) visit(node);
    return std::move(found_);
  }

 private:
  [[nodiscard]] std::string node_of(const fs::path& file) const {
    const std::string folder = file.parent_path().string();
    const bool values = file.filename() == "config.hpp" || file.filename() == "wire.hpp";
    return values && with_sub_folders_.contains(folder) ? file.string() : folder;
  }

  void visit(const std::string& node) {
    if (visited_.contains(node)) return;
    const auto on_path = [&](const std::string& target) {
      return std::find_if(path_.begin(), path_.end(), [&](const Include* by) { return node_of(by->file) == target; });
    };
    for (const auto& [target, include] : edges_[node]) {
      if (target == node) continue;
      path_.push_back(include);
      if (const auto begin = on_path(target); begin != path_.end()) {
        std::string cycle = "folders include each other:";
        for (auto edge = begin; edge != path_.end(); ++edge) {
          cycle += " " + (*edge)->file + ":" + std::to_string((*edge)->line) + " (" + (*edge)->target + ")";
        }
        found_.push_back(std::move(cycle));
      } else {
        visit(target);
      }
      path_.pop_back();
    }
    visited_.insert(node);
  }

  std::set<std::string> with_sub_folders_;
  std::map<std::string, std::map<std::string, const Include*>> edges_;
  std::set<std::string> visited_;
  std::vector<const Include*> path_;
  std::vector<std::string> found_;
};

/// Folders that hold too many files for their names to show the concepts.
std::vector<std::string> crowded_folders(const std::map<std::string, std::vector<Include>>& files) {
  std::map<std::string, std::size_t> sources;
  std::set<std::string> with_sub_folders;
  for (const auto& [file, includes] : files) {
    const fs::path folder = fs::path{file}.parent_path();
    ++sources[folder.string()];
    with_sub_folders.insert(folder.parent_path().string());
  }
  std::vector<std::string> findings;
  for (const auto& [folder, count] : sources) {
    if (count <= kMostFiles || with_sub_folders.contains(folder)) continue;
    findings.push_back(folder + ": " + std::to_string(count) + " files; split it into sub-folders of one concept each");
  }
  return findings;
}

}  // namespace

std::string layer_of(std::string_view path) {
  if (is_below(path, "opal/btl")) {
    const std::string_view rest = path.substr(std::string_view{"opal/btl/"}.size());
    const std::size_t slash = rest.find('/');
    if (slash != std::string_view::npos) return "opal/btl/" + std::string{rest.substr(0, slash)};
  }
  std::string_view longest;
  for (const Rule& rule : kRules) {
    if (is_below(path, rule.layer) && rule.layer.size() > longest.size()) longest = rule.layer;
  }
  return std::string{longest};
}

std::optional<std::string> objection(const Include& include) {
  const std::string where = include.file + ":" + std::to_string(include.line) + ": ";
  const std::string from = layer_of(include.file);
  if (from.empty()) return where + "this folder is not in the table of tests/layering/layers.cpp";

  const std::string_view target_root = root_of(include.target);
  const bool ours = include.target.find('/') != std::string::npos &&
                    std::find(kRoots.begin(), kRoots.end(), target_root) != kRoots.end();
  if (!ours) {
    for (const Reserved& reserved : kReserved) {
      const bool matches = std::string_view{include.target}.starts_with(reserved.header_prefix);
      if (matches && root_of(from) != reserved.root) {
        return where + from + " may not include <" + include.target + ">: it belongs to " + std::string{reserved.root};
      }
    }
    // mpi.h and its parts are found by the application's include path, so their own includes are plain names.
    if (include.quoted && root_of(from) != "mpi_shim") {
      return where + "\"" + include.target + "\" is not a path from the root of the repository";
    }
    return std::nullopt;
  }

  const std::string to = layer_of(include.target);
  if (to == from) return std::nullopt;
  for (const auto& [composer, part] : kCompositions) {
    if (from == composer && to == part) return std::nullopt;
  }
  // layer_of found `from` in the table, so its rule exists.
  if (!to.empty() && may_include(*rule_of(from), to)) return std::nullopt;
  return where + from + " may not include " + (to.empty() ? "an unknown folder" : to) + " (\"" + include.target + "\")";
}

std::vector<Include> includes_of(const std::string& file, std::string_view text) {
  std::vector<Include> found;
  std::istringstream lines{std::string{text}};
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::size_t at = line.find_first_not_of(" \t");
    if (at == std::string::npos || line[at] != '#') continue;
    at = line.find_first_not_of(" \t", at + 1);
    constexpr std::string_view kWord = "include";
    if (at == std::string::npos || line.compare(at, kWord.size(), kWord) != 0) continue;
    const std::size_t open = line.find_first_of("\"<", at + kWord.size());
    if (open == std::string::npos) continue;
    const std::size_t close = line.find(line[open] == '<' ? '>' : '"', open + 1);
    if (close == std::string::npos) continue;
    found.push_back({file, number, line.substr(open + 1, close - open - 1), line[open] == '"'});
  }
  return found;
}

std::vector<std::string> check_tree(const fs::path& root) {
  std::map<std::string, std::vector<Include>> files;
  for (const std::string_view top : kRoots) {
    if (!fs::exists(root / top)) continue;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator{root / top}) {
      if (!entry.is_regular_file() || !is_source(entry.path())) continue;
      const std::string file = fs::relative(entry.path(), root).generic_string();
      files[file] = includes_of(file, text_of(entry.path()));
    }
  }
  std::vector<std::string> findings;
  for (const auto& [file, includes] : files) {
    for (const Include& include : includes) {
      if (std::optional<std::string> finding = objection(include)) findings.push_back(std::move(*finding));
    }
    if (auto finding = own_header_objection(root, file, includes)) findings.push_back(std::move(*finding));
  }
  std::ranges::move(FolderGraph{files}.cycles(), std::back_inserter(findings));
  std::ranges::move(crowded_folders(files), std::back_inserter(findings));
  std::sort(findings.begin(), findings.end());
  return findings;
}

}  // namespace opal::layering
