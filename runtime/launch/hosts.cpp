// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/hosts.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>

#include "opal/core/environment.hpp"

namespace runtime::launch {
namespace {

struct Host {
  std::string name;
  std::optional<unsigned> slots;
};

std::optional<unsigned> number(std::string_view text) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value == 0 || value > (1U << 20)) return {};
  return value;
}

/// "name" or "name:slots"; the message when it is neither.
std::string parse_host(const std::string& text, Host& host) {
  const std::size_t colon = text.find(':');
  host.name = text.substr(0, colon);
  if (host.name.empty()) return "an empty host name in the list of hosts";
  if (colon == std::string::npos || text.find(':', colon + 1) != std::string::npos) {
    host.name = text;  // no slots, or an IPv6 address
    return {};
  }
  host.slots = number(text.substr(colon + 1));
  if (!host.slots) return fmt::format("host {}: \"{}\" is not a number of slots", host.name, text.substr(colon + 1));
  return {};
}

std::string read_host_file(const std::string& path, std::vector<Host>& hosts) {
  std::ifstream file{path};
  if (!file) return fmt::format("cannot read the host file {}: {}", path, std::strerror(errno));
  int line_number = 0;
  for (std::string line; std::getline(file, line);) {
    ++line_number;
    std::istringstream words{line.substr(0, line.find('#'))};
    std::string word;
    if (!(words >> word)) continue;
    Host host;
    std::string problem = parse_host(word, host);
    while (problem.empty() && words >> word) {
      if (!word.starts_with("slots=")) continue;
      host.slots = number(word.substr(std::strlen("slots=")));
      if (!host.slots) problem = fmt::format("\"{}\" is not a number of slots", word);
    }
    if (!problem.empty()) return fmt::format("{}:{}: {}", path, line_number, problem);
    hosts.push_back(host);
  }
  return hosts.empty() ? fmt::format("the host file {} names no host", path) : std::string{};
}

}  // namespace

bool is_this_host(const std::string& name) {
  const std::string ours = opal::host_name();
  return name == "localhost" || name == "127.0.0.1" || name == "::1" || name == ours ||
         name == ours.substr(0, ours.find('.'));
}

Slots count_ranks(const Options& options, unsigned cores) {
  std::vector<Host> hosts;
  for (const std::string& text : options.hosts) {
    if (std::string problem = parse_host(text, hosts.emplace_back()); !problem.empty()) return {0, problem};
  }
  if (!options.host_file.empty()) {
    if (std::string problem = read_host_file(options.host_file, hosts); !problem.empty()) return {0, problem};
  }
  unsigned slots = 0;
  bool counted = false;
  for (const Host& host : hosts) {
    if (!is_this_host(host.name)) {
      return {0, fmt::format("host {} is another host than this one ({}); this version starts ranks on one host only",
                             host.name, opal::host_name())};
    }
    counted = counted || host.slots.has_value();
    slots += host.slots.value_or(options.ranks ? 1U : cores);
  }
  if (hosts.empty()) return {options.ranks.value_or(cores), {}};
  const unsigned ranks = options.ranks.value_or(slots);
  if (counted && ranks > slots && !options.oversubscribe) {
    return {0,
            fmt::format("{} ranks do not fit into the {} slots of the hosts; --oversubscribe allows it", ranks, slots)};
  }
  return {ranks, {}};
}

}  // namespace runtime::launch
