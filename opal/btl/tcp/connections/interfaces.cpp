// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/tcp/connections/interfaces.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "opal/core/text.hpp"

namespace opal::btl::tcp {
namespace {

Result<SocketAddress> parse_ip(const std::string& text) {
  SocketAddress v4;
  v4.ip[10] = v4.ip[11] = 0xff;
  if (::inet_pton(AF_INET, text.c_str(), v4.ip.data() + 12) == 1) return v4;
  SocketAddress v6;
  if (::inet_pton(AF_INET6, text.c_str(), v6.ip.data()) == 1) return v6;
  return Error{Errc::invalid_argument, 0, "interface list: not an IP address"};
}

bool same_prefix(const SocketAddress& a, const SocketAddress& b, unsigned bits) noexcept {
  for (unsigned i = 0; i < 16 && bits > 0; ++i) {
    const unsigned now = std::min(bits, 8U);
    const unsigned mask = 0xff00U >> now & 0xffU;
    if (((a.ip[i] ^ b.ip[i]) & mask) != 0) return false;
    bits -= now;
  }
  return true;
}

bool is_link_local(const SocketAddress& address) noexcept {
  if (address.is_v4()) return address.ip[12] == 169 && address.ip[13] == 254;
  return address.ip[0] == 0xfe && (address.ip[1] & 0xc0) == 0x80;
}

}  // namespace

Result<InterfaceFilter> InterfaceFilter::parse(std::string_view text) {
  InterfaceFilter filter;
  for (const std::string_view part : split(text, ',')) {
    const std::string_view entry = trimmed(part);
    if (entry.empty()) continue;
    const std::size_t slash = entry.find('/');
    if (slash == std::string_view::npos) {
      filter.names_.emplace_back(entry);
      continue;
    }
    OPAL_TRY_ASSIGN(const SocketAddress base, parse_ip(std::string{entry.substr(0, slash)}));
    const unsigned most = base.is_v4() ? 32 : 128;
    const auto bits = parse_number<unsigned>(entry.substr(slash + 1));
    if (!bits || *bits > most) {
      return Error{Errc::invalid_argument, 0, "interface list: bad number of bits after '/'", bits.value_or(0)};
    }
    filter.networks_.push_back({base, *bits + 128 - most});
  }
  return filter;
}

bool InterfaceFilter::matches(const Interface& interface) const noexcept {
  return std::ranges::find(names_, interface.name) != names_.end() ||
         std::ranges::any_of(networks_, [&](const Network& network) {
           return same_prefix(network.base, interface.address, network.bits);
         });
}

Result<std::vector<Interface>> local_interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return Error{Errc::os, errno, "getifaddrs"};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner{list, &::freeifaddrs};
  std::vector<Interface> result;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const auto address = SocketAddress::from(*entry->ifa_addr);
    if (!address || is_link_local(*address)) continue;
    Interface interface { entry->ifa_name, *address };
    interface.address.port = {};
    result.push_back(std::move(interface));
  }
  return result;
}

std::vector<Interface> select(const std::vector<Interface>& all, const InterfaceFilter& include,
                              const InterfaceFilter& exclude) {
  std::vector<Interface> chosen;
  std::vector<Interface> loopback;
  for (const Interface& interface : all) {
    if (exclude.matches(interface) || (!include.empty() && !include.matches(interface))) continue;
    (interface.address.is_loopback() ? loopback : chosen).push_back(interface);
  }
  // Loopback that `include` matches comes last.  Without `include` it is used only if there is nothing else.
  if (chosen.empty() || !include.empty()) chosen.insert(chosen.end(), loopback.begin(), loopback.end());
  return chosen;
}

}  // namespace opal::btl::tcp
