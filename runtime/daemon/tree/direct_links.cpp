// SPDX-License-Identifier: Apache-2.0
#include "runtime/daemon/tree/direct_links.hpp"

#include <algorithm>

#include "opal/core/log.hpp"

namespace runtime::daemon {

DirectLinks::DirectLinks(event::Loop& loop, oob::Daemon& oob, std::function<bool(opal::am::Endpoint&)> serves_others)
    : loop_(loop), oob_(oob), serves_others_(std::move(serves_others)) {}

void DirectLinks::learn(std::uint32_t host, std::string address) { addresses_[host] = std::move(address); }

bool DirectLinks::ask(std::uint32_t host, Kind kind, const std::string& content) {
  const auto address = addresses_.find(host);
  if (address == addresses_.end()) return false;
  Link& link = links_[host];
  if (link.endpoint == nullptr) {
    const auto endpoint = oob_.connect(oob::as_bytes(address->second));
    if (!endpoint || (*endpoint)->dead()) {
      links_.erase(host);
      return false;
    }
    link.endpoint = *endpoint;
    opal::log::debug("runtime", "modex requests go directly to host {}", host);
  }
  if (!timer_) timer_ = loop_.after(kIdle, [this] { close_idle(); });
  if (!oob_.send(*link.endpoint, topic(kind), content)) return false;
  ++link.open;
  link.used = true;
  return true;
}

void DirectLinks::answered(std::uint32_t host) {
  const auto link = links_.find(host);
  if (link != links_.end() && link->second.open > 0) --link->second.open;
}

std::optional<std::uint32_t> DirectLinks::on_closed(const opal::am::Endpoint& endpoint) {
  const auto link =
      std::find_if(links_.begin(), links_.end(), [&](const auto& each) { return each.second.endpoint == &endpoint; });
  if (link == links_.end()) return std::nullopt;
  return links_.extract(link).key();
}

void DirectLinks::close_idle() {
  timer_ = {};
  for (auto link = links_.begin(); link != links_.end();) {
    if (link->second.open > 0 || std::exchange(link->second.used, false)) {
      ++link;
      continue;
    }
    opal::log::debug("runtime", "the link to host {} is idle and is closed", link->first);
    if (!serves_others_(*link->second.endpoint)) oob_.disconnect(*link->second.endpoint);
    link = links_.erase(link);
  }
  if (!links_.empty()) timer_ = loop_.after(kIdle, [this] { close_idle(); });
}

}  // namespace runtime::daemon
