// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/hosts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>

#include "opal/core/environment.hpp"
#include "opal/core/text.hpp"
#include "runtime/host/messages.hpp"

namespace runtime::launch {
namespace {

struct Host {
  std::string name;
  std::optional<unsigned> slots;
};

constexpr unsigned kMostHosts = 1U << 20;
constexpr std::size_t kLongestName = 255;        // as in the DNS
constexpr std::size_t kLargestFile = 16U << 20;  // bytes of a host file
constexpr std::size_t kShownName = 64;           // bytes of a wrong name in a message
constexpr std::string_view kInNames = ".-_:@%";  // besides letters and digits

/// As much of a name as a message may show: it comes from outside.
std::string shown(std::string_view name) {
  std::string text{name.substr(0, kShownName)};
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return name.size() > kShownName ? text + "..." : text;
}

/// Empty, or what is wrong with a host's name: it becomes an argument of the launch agent and of libpmix.
std::string check_name(std::string_view name) {
  if (name.empty()) return "an empty host name in the list of hosts";
  if (name.size() > kLongestName) {
    return fmt::format("host {}: the name has {} characters; at most {} are allowed", shown(name), name.size(),
                       kLongestName);
  }
  if (name.front() == '-') return fmt::format("host {}: a host's name does not begin with \"-\"", shown(name));
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kInNames.find(c) != std::string_view::npos;
  };
  if (!std::ranges::all_of(name, allowed)) {
    return fmt::format("host {}: a host's name has letters, digits and \"{}\" only", shown(name), kInNames);
  }
  return {};
}

/// A number from 0 on.
std::optional<unsigned> count(std::string_view text) {
  const auto value = opal::parse_number<unsigned>(text);
  return value && *value <= kMostHosts ? value : std::nullopt;
}
std::optional<unsigned> number(std::string_view text) {
  const std::optional<unsigned> value = count(text);
  return value && *value != 0 ? value : std::nullopt;
}

/// "name" or "name:slots"; the message when it is neither.
std::string parse_host(const std::string& text, Host& host) {
  const std::size_t colon = text.find(':');
  const bool has_slots = colon != std::string::npos && text.find(':', colon + 1) == std::string::npos;
  host.name = has_slots ? text.substr(0, colon) : text;  // several colons: an IPv6 address
  if (std::string problem = check_name(host.name); !problem.empty() || !has_slots) return problem;
  host.slots = number(text.substr(colon + 1));
  if (!host.slots) {
    return fmt::format("host {}: \"{}\" is not a number of slots", host.name, shown(text.substr(colon + 1)));
  }
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

/// What a word after a host's name says: its slots, or what only other launchers heed.
std::string parse_word(const std::string& word, Host& host) {
  constexpr std::array<std::string_view, 10> kOfOthers{
      "max_slots=", "max-slots=", "slots_max=", "username=", "user=",
      "port=",      "rack=",      "ifname=",    "binding=",  "netmask="};
  for (const std::string_view slots : {"slots=", "slot=", "count=", "cpu=", "cpus="}) {
    if (!word.starts_with(slots)) continue;
    host.slots = number(std::string_view{word}.substr(slots.size()));
    return host.slots ? std::string{} : fmt::format("\"{}\" is not a number of slots", word);
  }
  if (std::ranges::any_of(kOfOthers, [&](std::string_view other) { return word.starts_with(other); })) {
    return {};
  }
  return fmt::format("\"{}\" is not understood; a line is \"NAME slots=N\" or \"NAME:N\"", word);
}

/// The file's text, or why it cannot be had.  A pipe is a file, too; what never ends is not.
std::string read_whole(const std::string& path, std::istringstream& text) {
  std::ifstream file{path};
  if (!file) return fmt::format("cannot read the host file {}: {}", path, std::strerror(errno));
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  if (type != std::filesystem::file_type::regular && type != std::filesystem::file_type::fifo) {
    return fmt::format("cannot read the host file {}: neither a regular file nor a pipe", path);
  }
  const auto all = std::make_unique_for_overwrite<char[]>(kLargestFile + 1);
  file.read(all.get(), kLargestFile + 1);
  if (file) return fmt::format("cannot read the host file {}: larger than {} MiB", path, kLargestFile >> 20);
  if (file.bad()) return fmt::format("cannot read the host file {}: {}", path, std::strerror(errno));
  text.str({all.get(), static_cast<std::size_t>(file.gcount())});
  return {};
}

std::string read_host_file(const std::string& path, std::vector<Host>& hosts) {
  std::istringstream file;
  if (std::string problem = read_whole(path, file); !problem.empty()) return problem;
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

namespace {

/// "08-10,12" -> 08 09 10 12; nothing when it is no such list.
std::vector<std::string> expand_ranges(std::string_view text) {
  std::vector<std::string> numbers;
  for (const std::string_view range : opal::split(text, ',')) {
    const std::size_t dash = range.find('-');
    const std::string_view first = range.substr(0, dash);
    const auto from = opal::parse_number<std::uint64_t>(first);
    const auto to = dash == std::string_view::npos ? from : opal::parse_number<std::uint64_t>(range.substr(dash + 1));
    if (!from || !to || *to < *from || *to - *from >= kMostHosts - numbers.size()) return {};
    for (std::uint64_t i = *from;; ++i) {
      numbers.push_back(fmt::format("{:0{}}", i, first.size()));
      if (i == *to) break;
    }
  }
  return numbers;
}

/// "rack[1-2]n[1-2]" -> rack1n1 rack1n2 rack2n1 rack2n2; nothing when it is no such name.
std::vector<std::string> expand_name(std::string_view text) {
  std::vector<std::string> names{""};
  while (!text.empty()) {
    const std::size_t bracket = std::min(text.find('['), text.size());
    for (std::string& name : names) name += text.substr(0, bracket);
    if (bracket == text.size()) break;
    const std::size_t end = text.find(']', bracket);
    if (end == std::string_view::npos) return {};
    const std::vector<std::string> numbers = expand_ranges(text.substr(bracket + 1, end - bracket - 1));
    if (numbers.empty() || names.size() > kMostHosts / numbers.size()) return {};
    std::vector<std::string> longer;
    for (const std::string& name : names) {
      for (const std::string& number : numbers) longer.push_back(name + number);
    }
    names = std::move(longer);
    text.remove_prefix(end + 1);
  }
  return names;
}

}  // namespace

std::vector<std::string> expand_host_list(const std::string& text) {
  std::vector<std::string> names;
  for (std::string_view rest = text; !rest.empty();) {
    std::size_t end = 0;  // of the name: the next comma outside of brackets
    for (bool inside = false; end < rest.size() && (inside || rest[end] != ','); ++end) {
      if (rest[end] == '[' || rest[end] == ']') inside = rest[end] == '[';
    }
    std::vector<std::string> more = expand_name(rest.substr(0, end));
    if (end == 0 || end + 1 == rest.size() || more.empty() || more.size() > kMostHosts - names.size()) return {};
    std::move(more.begin(), more.end(), std::back_inserter(names));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (!std::ranges::all_of(names, [](const std::string& name) { return check_name(name).empty(); })) {
    return {};
  }
  return names;
}

std::vector<unsigned> expand_counts(const std::string& text) {
  std::vector<unsigned> counts;
  for (const std::string_view part : opal::elements(text, ',')) {
    const std::size_t times = part.find("(x");
    const auto value = count(part.substr(0, times));
    auto repeat = std::optional<unsigned>{1};
    if (times != std::string::npos) {
      if (part.back() != ')') return {};
      repeat = count(part.substr(times + 2, part.size() - times - 3));
    }
    if (!value || !repeat || *repeat > kMostHosts - counts.size()) return {};
    counts.insert(counts.end(), *repeat, *value);
  }
  return counts;
}

namespace {

/// The hosts of the Slurm allocation this process is in; none when it is in none.  What is wrong with them, or empty.
std::string slurm_hosts(std::vector<Host>& hosts) {
  const auto list = opal::environment("SLURM_JOB_NODELIST");
  if (!list || !opal::environment("SLURM_JOB_ID")) return {};
  std::vector<unsigned> slots;
  for (const char* const name : {"SLURM_TASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE"}) {
    const std::string counts = opal::environment(name).value_or("");
    if (!slots.empty() || counts.empty()) continue;
    slots = expand_counts(counts);
    if (slots.empty()) return fmt::format("{}={} is not understood; name the hosts with --host", name, shown(counts));
  }
  for (const std::string& name : expand_host_list(*list)) {
    const std::size_t index = hosts.size();
    hosts.push_back({name, index < slots.size() ? slots[index] : 1});
  }
  if (!hosts.empty()) return {};
  return fmt::format(
      "the list of the allocation's hosts, SLURM_JOB_NODELIST={}, is not understood; name them with "
      "--host $(scontrol show hostnames | paste -sd,)",
      shown(*list));
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
    result.problem = slurm_hosts(hosts);
    if (!result.problem.empty()) return result;
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
    const auto known = std::ranges::find_if(result.hosts, [&](const HostSlots& other) { return other.name == name; });
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

std::vector<std::vector<std::uint32_t>> place_ranks(Map map, unsigned ranks, const std::vector<HostSlots>& hosts) {
  std::vector<unsigned> counts(hosts.size());
  unsigned left = ranks;
  // Rounds over the hosts: whole hosts or single ranks while there are slots, then single ranks.
  for (bool any = true; any && left > 0;) {
    any = false;
    for (std::size_t i = 0; i < hosts.size() && left > 0; ++i) {
      const unsigned room = hosts[i].slots - std::min(counts[i], hosts[i].slots);
      const unsigned taken = std::min({left, room, map == Map::node ? 1U : room});
      counts[i] += taken;
      left -= taken;
      any = any || taken > 0;
    }
  }
  for (std::size_t i = 0; left > 0; i = (i + 1) % hosts.size(), --left) ++counts[i];
  std::vector<std::vector<std::uint32_t>> placed(hosts.size());
  std::uint32_t next = 0;
  while (next < ranks) {
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      const std::size_t end = map == Map::node ? std::min<std::size_t>(placed[i].size() + 1, counts[i]) : counts[i];
      while (placed[i].size() < end) placed[i].push_back(next++);
    }
  }
  return placed;
}

std::string describe(const std::vector<HostSlots>& hosts, const std::vector<std::vector<std::uint32_t>>& placed) {
  std::string text;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const std::string ranks = placed[i].empty() ? "no ranks" : list_numbers("rank", placed[i]);
    text += fmt::format("{} ({} slot{}): {}\n", hosts[i].name, hosts[i].slots, hosts[i].slots == 1 ? "" : "s", ranks);
  }
  return text;
}

}  // namespace runtime::launch
