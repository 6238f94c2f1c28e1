// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/hosts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
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

constexpr unsigned kMostHosts = 1U << 20;

/// A number from 0 on.
std::optional<unsigned> count(std::string_view text) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value > kMostHosts) return {};
  return value;
}

std::optional<unsigned> number(std::string_view text) {
  const std::optional<unsigned> value = count(text);
  return value && *value != 0 ? value : std::nullopt;
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

/// "slots = 4" is one word in the files of Open MPI.
std::string joined_assignments(const std::string& line) {
  std::string result;
  for (const char c : line) {
    if (c == '=') result.erase(result.find_last_not_of(" \t") + 1);
    if ((c != ' ' && c != '\t') || result.empty() || result.back() != '=') result += c;
  }
  return result;
}

/// What a word behind a host's name says: its slots, or what only other launchers heed.
std::string parse_word(const std::string& word, Host& host) {
  constexpr std::array<std::string_view, 10> kOfOthers{
      "max_slots=", "max-slots=", "slots_max=", "username=", "user=",
      "port=",      "rack=",      "ifname=",    "binding=",  "netmask="};
  for (const std::string_view slots : {"slots=", "slot=", "count=", "cpu=", "cpus="}) {
    if (!word.starts_with(slots)) continue;
    host.slots = number(std::string_view{word}.substr(slots.size()));
    return host.slots ? std::string{} : fmt::format("\"{}\" is not a number of slots", word);
  }
  if (std::any_of(kOfOthers.begin(), kOfOthers.end(),
                  [&](std::string_view other) { return word.starts_with(other); })) {
    return {};
  }
  return fmt::format("\"{}\" is not understood; a line is \"NAME slots=N\" or \"NAME:N\"", word);
}

std::string read_host_file(const std::string& path, std::vector<Host>& hosts) {
  std::ifstream file{path};
  if (!file) return fmt::format("cannot read the host file {}: {}", path, std::strerror(errno));
  int line_number = 0;
  for (std::string line; std::getline(file, line);) {
    ++line_number;
    std::istringstream words{joined_assignments(line.substr(0, line.find('#')))};
    std::string word;
    if (!(words >> word)) continue;
    Host host;
    std::string problem = parse_host(word, host);
    while (problem.empty() && words >> word) problem = parse_word(word, host);
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

std::vector<std::string> expand_host_list(const std::string& text) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t bracket = text.find('[', begin);
    const std::size_t comma = text.find(',', begin);
    if (bracket == std::string::npos || comma < bracket) {
      names.push_back(text.substr(begin, comma - begin));
      if (names.back().empty()) return {};
      begin = comma == std::string::npos ? text.size() : comma + 1;
      continue;
    }
    const std::string prefix = text.substr(begin, bracket - begin);
    const std::size_t end = text.find(']', bracket);
    if (end == std::string::npos) return {};
    std::istringstream ranges{text.substr(bracket + 1, end - bracket - 1)};
    for (std::string range; std::getline(ranges, range, ',');) {
      const std::size_t dash = range.find('-');
      const std::string first = range.substr(0, dash);
      const std::string last = dash == std::string::npos ? first : range.substr(dash + 1);
      const auto from = count(first);
      const auto to = count(last);
      if (!from || !to || *to < *from || *to - *from > kMostHosts) return {};
      for (unsigned i = *from; i <= *to; ++i) names.push_back(fmt::format("{}{:0{}}", prefix, i, first.size()));
    }
    if (end + 1 < text.size() && text[end + 1] != ',') return {};
    begin = end + 2;
  }
  return names;
}

std::vector<unsigned> expand_counts(const std::string& text) {
  std::vector<unsigned> counts;
  std::istringstream parts{text};
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t times = part.find("(x");
    const auto value = count(part.substr(0, times));
    auto repeat = std::optional<unsigned>{1};
    if (times != std::string::npos) {
      if (part.back() != ')') return {};
      repeat = count(part.substr(times + 2, part.size() - times - 3));
    }
    if (!value || !repeat || *repeat > kMostHosts) return {};
    counts.insert(counts.end(), *repeat, *value);
  }
  return counts;
}

namespace {

/// The hosts of the Slurm allocation this process is in; none when it is in none.
std::vector<Host> slurm_hosts() {
  const auto list = opal::environment("SLURM_JOB_NODELIST");
  if (!list || !opal::environment("SLURM_JOB_ID")) return {};
  std::vector<unsigned> slots;
  for (const char* const name : {"SLURM_TASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE"}) {
    if (slots.empty()) slots = expand_counts(opal::environment(name).value_or(""));
  }
  std::vector<Host> hosts;
  for (const std::string& name : expand_host_list(*list)) {
    const std::size_t index = hosts.size();
    hosts.push_back({name, index < slots.size() ? slots[index] : 1});
  }
  return hosts;
}

}  // namespace

Allocation find_hosts(const Options& options, unsigned cores) {
  std::vector<Host> hosts;
  Allocation result;
  for (const std::string& text : options.hosts) {
    result.problem = parse_host(text, hosts.emplace_back());
    if (!result.problem.empty()) return result;
  }
  if (!options.host_file.empty()) {
    result.problem = read_host_file(options.host_file, hosts);
    if (!result.problem.empty()) return result;
  }
  if (hosts.empty()) {
    hosts = slurm_hosts();
    result.slurm = !hosts.empty();
  }
  if (hosts.empty()) {
    result.ranks = options.ranks.value_or(cores);
    result.hosts = {{opal::host_name(), std::max(cores, 1U)}};
    return result;
  }
  unsigned slots = 0;
  bool counted = false;
  for (const Host& host : hosts) {
    const bool here = is_this_host(host.name);
    counted = counted || host.slots.has_value();
    // How many cores another host has is not known before its daemon runs: one slot each time it is named.
    const unsigned count = host.slots.value_or(options.ranks || !here ? 1U : cores);
    slots += count;
    const std::string name = here ? opal::host_name() : host.name;
    const auto known = std::find_if(result.hosts.begin(), result.hosts.end(),
                                    [&](const HostSlots& other) { return other.name == name; });
    if (known == result.hosts.end()) {
      result.hosts.push_back({name, count});
    } else {
      known->slots += count;
    }
  }
  result.ranks = options.ranks.value_or(slots);
  if (counted && result.ranks > slots && !options.oversubscribe) {
    result.problem = fmt::format("{} ranks do not fit into the {} slots of the hosts; --oversubscribe allows it",
                                 result.ranks, slots);
  }
  return result;
}

}  // namespace runtime::launch
