// SPDX-License-Identifier: Apache-2.0
#include "tests/campaign/symbols.hpp"

#include <cstdio>
#include <map>
#include <memory>

namespace opal::campaign {
namespace {

using Offsets = std::multimap<std::string, std::uintptr_t>;

constexpr std::string_view kUnnamed = "(anonymous namespace)::";

Offsets read_symbols(const std::string& path) {
  Offsets found;
  const std::string command = "nm -C --defined-only '" + path + "' 2>/dev/null";
  const std::unique_ptr<FILE, int (*)(FILE*)> output{::popen(command.c_str(), "r"), &::pclose};
  char line[16384];
  while (output != nullptr && std::fgets(line, sizeof line, output.get()) != nullptr) {
    char* end = nullptr;
    const std::uintptr_t offset = std::strtoull(line, &end, 16);
    std::string rest{end};
    if (rest.size() < 4 || std::string{"tTwW"}.find(rest[1]) == std::string::npos) continue;
    if (rest.find("{lambda") != std::string::npos || rest.find("[clone") != std::string::npos) continue;
    for (std::size_t at = rest.find(kUnnamed); at != std::string::npos; at = rest.find(kUnnamed)) {
      rest.erase(at, kUnnamed.size());
    }
    const std::size_t parameters = rest.find('(');
    if (parameters != std::string::npos) found.emplace(rest.substr(3, parameters - 3), offset);
  }
  return found;
}

}  // namespace

std::optional<std::uintptr_t> offset_of(const std::string& path, const std::string& function) {
  static std::map<std::string, Offsets> files;
  if (!files.contains(path)) files.emplace(path, read_symbols(path));
  const auto [begin, end] = files.at(path).equal_range(function);
  if (begin == end || std::next(begin) != end) return std::nullopt;
  return begin->second;
}

}  // namespace opal::campaign
