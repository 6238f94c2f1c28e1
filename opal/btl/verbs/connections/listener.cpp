// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/verbs/connections/listener.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "opal/btl/verbs/connections/device_order.hpp"
#include "opal/core/log.hpp"
#include "opal/core/text.hpp"
#include "opal/topology/topology.hpp"

namespace opal::btl::verbs {
namespace {

constexpr int kBacklog = 1024;

constexpr std::size_t kNotListed = ~std::size_t{0};

/// The index of `name` in a comma-separated list, or kNotListed.  An empty list allows every name, without an order: 0.
std::size_t index_in(std::string_view list, std::string_view name) {
  if (list.empty()) return 0;
  const auto names = split(list, ',');
  const auto place = std::find(names.begin(), names.end(), name);
  return place != names.end() ? static_cast<std::size_t>(place - names.begin()) : kNotListed;
}

/// Whether a peer on another host can use the address: its interface is up and no loopback.  Link-local addresses are
/// left out, since they need a scope that a peer cannot know.
bool is_reachable(const ifaddrs& interface) noexcept {
  if (interface.ifa_addr == nullptr || (interface.ifa_flags & IFF_UP) == 0) return false;
  if ((interface.ifa_flags & IFF_LOOPBACK) != 0) return false;
  if (interface.ifa_addr->sa_family == AF_INET) return true;
  if (interface.ifa_addr->sa_family != AF_INET6) return false;
  sockaddr_in6 v6;
  std::memcpy(&v6, interface.ifa_addr, sizeof v6);
  return !IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr);
}

/// Measures how near each device is to the processors of this process.  Without a topology all are equal.
void measure(std::vector<Candidate>& candidates) {
  const auto topology = topology::Topology::open();
  if (!topology)
    return log::info("btl.verbs", "devices keep the order of their interfaces: {}", to_string(topology.error()));
  const topology::Cpus own = topology->usable_cpus();
  for (Candidate& candidate : candidates) {
    const auto local = topology::read_cpus(fmt::format("/sys/class/infiniband/{}/device/local_cpus", candidate.device));
    if (local) candidate.nearness = topology->nearness(own, *local);
  }
}

}  // namespace

Result<Listener> Listener::open(const std::string& devices, std::size_t rail) {
  Listener listener;
  listener.channel.reset(rdma_create_event_channel());
  if (listener.channel == nullptr) return device_error(errno, "rdma_create_event_channel (kernel module rdma_ucm)");
  const int fd = listener.channel->fd;
  if (const int flags = ::fcntl(fd, F_GETFL); flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    return Error{Errc::os, errno, "fcntl(O_NONBLOCK, rdma event channel)"};
  }
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return Error{Errc::os, errno, "getifaddrs"};
  const std::unique_ptr<ifaddrs, Destroyer<&::freeifaddrs>> owner{list};
  std::vector<Candidate> candidates;  // one per device: its first address, in the order of getifaddrs()
  std::vector<CmId> ids;              // bound to these addresses
  std::string seen;                   // each address and its device, for the log
  for (const ifaddrs* interface = list; interface != nullptr; interface = interface->ifa_next) {
    if (!is_reachable(*interface)) continue;
    rdma_cm_id* raw = nullptr;
    if (rdma_create_id(listener.channel.get(), &raw, nullptr, RDMA_PS_TCP) != 0) {
      return device_error(errno, "rdma_create_id");
    }
    CmId id{raw};
    // rdma_bind_addr() finds the RDMA device behind the address.
    const bool bound = rdma_bind_addr(raw, interface->ifa_addr) == 0 && raw->verbs != nullptr;
    const char* name = bound ? ibv_get_device_name(raw->verbs->device) : "no RDMA device";
    seen += fmt::format("{}{} {}: {}", seen.empty() ? "" : ", ", interface->ifa_name,
                        to_string(*SocketAddress::from(*interface->ifa_addr)), name);
    const std::size_t index = bound ? index_in(devices, name) : kNotListed;
    const bool known = std::any_of(candidates.begin(), candidates.end(),
                                   [&](const Candidate& candidate) { return candidate.device == name; });
    if (index == kNotListed || known) continue;
    candidates.push_back({name, network_of(*interface->ifa_addr, interface->ifa_netmask), index});
    ids.push_back(std::move(id));
  }
  if (has_choice(candidates)) measure(candidates);
  const std::vector<std::size_t> order = order_of(candidates);
  if (rail < order.size()) {
    CmId& id = ids[order[rail]];
    if (rdma_listen(id.get(), kBacklog) != 0) return device_error(errno, "rdma_listen");
    OPAL_TRY_ASSIGN(listener.socket, SocketAddress::from(*rdma_get_local_addr(id.get())));
    listener.device = candidates[order[rail]].device;
    listener.id = std::move(id);
    log::info("btl.verbs", "rail {}: {}, of the devices {}", rail, listener.device, explanation_of(candidates, order));
    return listener;
  }
  log::info("btl.verbs", "rail {}: only {} RDMA devices that have an address and may be used; addresses: {}", rail,
            candidates.size(), seen);
  return Error{Errc::unreachable, 0, "verbs: fewer RDMA devices that have an address and may be used than rails",
               candidates.size()};
}

Result<void> devices_present() noexcept {
  DIR* const directory = ::opendir("/sys/class/infiniband");
  bool any = false;
  if (directory != nullptr) {
    while (const dirent* entry = ::readdir(directory)) any = any || entry->d_name[0] != '.';
    ::closedir(directory);
  }
  if (!any) return Error{Errc::not_supported, 0, "verbs: no RDMA device on this host (/sys/class/infiniband)"};
  if (::access("/dev/infiniband/rdma_cm", R_OK | W_OK) != 0) {
    return Error{Errc::not_supported, errno, "verbs: /dev/infiniband/rdma_cm (kernel module rdma_ucm)"};
  }
  return {};
}

}  // namespace opal::btl::verbs
