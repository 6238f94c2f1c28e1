// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/verbs/connections/device_order.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <numeric>

namespace opal::btl::verbs {
namespace {

/// `offset` and `size`: of the IP address in both.
std::string network_in(int family, const sockaddr& address, const sockaddr* mask, std::size_t offset,
                       std::size_t size) {
  std::array<std::uint8_t, 16> ip{};
  std::array<std::uint8_t, 16> bits{};
  std::memcpy(ip.data(), reinterpret_cast<const std::uint8_t*>(&address) + offset, size);
  bits.fill(0xff);  // without a mask the address is a network of its own
  if (mask != nullptr) std::memcpy(bits.data(), reinterpret_cast<const std::uint8_t*>(mask) + offset, size);
  int length = 0;
  for (std::size_t i = 0; i < size; ++i) {
    ip[i] &= bits[i];
    length += std::popcount(bits[i]);
  }
  char text[INET6_ADDRSTRLEN] = "";
  (void)::inet_ntop(family, ip.data(), text, sizeof text);
  return fmt::format("{}/{}", text, length);
}

/// True if either may be in the place of the other.
bool are_equal(const Candidate& one, const Candidate& other) noexcept {
  return one.listed == other.listed && one.network == other.network;
}

}  // namespace

std::string network_of(const sockaddr& address, const sockaddr* mask) {
  if (address.sa_family == AF_INET) {
    return network_in(AF_INET, address, mask, offsetof(sockaddr_in, sin_addr), sizeof(in_addr));
  }
  return network_in(AF_INET6, address, mask, offsetof(sockaddr_in6, sin6_addr), sizeof(in6_addr));
}

bool has_choice(const std::vector<Candidate>& candidates) noexcept {
  for (auto one = candidates.begin(); one != candidates.end(); ++one) {
    if (std::any_of(std::next(one), candidates.end(), [&](const Candidate& other) { return are_equal(*one, other); })) {
      return true;
    }
  }
  return false;
}

std::vector<std::size_t> order_of(const std::vector<Candidate>& candidates) {
  std::vector<std::size_t> listed(candidates.size());
  std::iota(listed.begin(), listed.end(), std::size_t{0});
  std::stable_sort(listed.begin(), listed.end(),
                   [&](std::size_t a, std::size_t b) { return candidates[a].listed < candidates[b].listed; });
  std::vector<std::size_t> order;
  for (const std::size_t place : listed) {  // takes the nearest of those that could be here and have no rail yet
    std::size_t best = candidates.size();
    for (const std::size_t other : listed) {
      if (!are_equal(candidates[place], candidates[other])) continue;
      if (std::find(order.begin(), order.end(), other) != order.end()) continue;
      if (best == candidates.size() || candidates[other].nearness > candidates[best].nearness) best = other;
    }
    order.push_back(best);
  }
  return order;
}

std::string explanation_of(const std::vector<Candidate>& candidates, const std::vector<std::size_t>& order) {
  std::string text;
  for (const std::size_t place : order) {
    const Candidate& one = candidates[place];
    text += fmt::format("{}{} ({}, nearness {})", text.empty() ? "" : ", ", one.device, one.network, one.nearness);
  }
  return text;
}

}  // namespace opal::btl::verbs
