// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/ofi/device/offers.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "opal/core/text.hpp"

namespace opal::btl::ofi {
namespace {

bool has_part(std::string_view provider, std::span<const std::string_view> wanted) {
  const std::vector<std::string_view> parts = elements(provider, ';');
  return std::ranges::any_of(parts,
                             [&](std::string_view part) { return std::ranges::find(wanted, part) != wanted.end(); });
}

constexpr std::string_view kSoftware[] = {"tcp", "udp", "sockets", "net", "shm", "sm2", "lnx"};
/// In libfabric 1.17 a send to a peer that has closed its endpoint is an access to unmapped memory.
constexpr std::string_view kRefused[] = {"shm"};
constexpr std::string_view kOfVerbs[] = {"verbs", "psm3"};

/// Each provider once, in the order of the offers; of `domain` only if it is not empty.
std::vector<std::string_view> providers_in(std::span<const Offer> offers) {
  std::vector<std::string_view> names;
  for (const Offer& offer : offers) {
    if (std::ranges::find(names, offer.provider) == names.end()) names.push_back(offer.provider);
  }
  return names;
}

}  // namespace

bool same_provider(std::string_view a, std::string_view b) {
  std::vector<std::string_view> left = elements(a, ';');
  std::vector<std::string_view> right = elements(b, ';');
  std::ranges::sort(left);
  std::ranges::sort(right);
  return left == right;
}

bool is_software(std::string_view provider) { return has_part(provider, kSoftware); }

bool is_served(std::string_view provider) { return is_software(provider) || has_part(provider, kOfVerbs); }

Result<std::size_t> choose(std::span<const Offer> offers, std::string_view provider, std::string_view domain) {
  if (has_part(provider, kRefused)) {
    return Error{Errc::not_supported, 0,
                 "ofi: libfabric's shm ends the process that sends to an ended peer (1.17); sm reaches this host's"};
  }
  std::vector<std::string_view> domains;  // of the wanted provider
  for (std::size_t i = 0; i < offers.size(); ++i) {
    const bool fits = provider.empty() ? !is_served(offers[i].provider) : same_provider(offers[i].provider, provider);
    if (!fits) continue;
    if (domain.empty() || offers[i].domain == domain) return i;
    domains.push_back(offers[i].domain);
  }
  std::string why;
  if (!domains.empty()) {
    why = fmt::format("ofi: no domain \"{}\" (btl_ofi_domain); there are: {}", domain, fmt::join(domains, ", "));
  } else if (offers.empty()) {
    why = "ofi: libfabric offers no provider with reliable datagrams (FI_EP_RDM)";
  } else if (provider.empty()) {
    why = fmt::format("ofi: libfabric offers only what verbs, sm and tcp reach; btl_ofi_provider chooses one of: {}",
                      fmt::join(providers_in(offers), ", "));
  } else {
    why = fmt::format("ofi: libfabric has no provider \"{}\" here (btl_ofi_provider); there are: {}", provider,
                      fmt::join(providers_in(offers), ", "));
  }
  return Error{Errc::unreachable, 0, kept_for_ever(why)};
}

}  // namespace opal::btl::ofi
