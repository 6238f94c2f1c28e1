// SPDX-License-Identifier: Apache-2.0
// opal/rcache/statistics.hpp — counters of a registration cache.
#pragma once
#include <cstdint>

namespace opal::rcache {

/// A number of registrations and their bytes.
struct Amount {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;

  Amount& operator+=(const Amount& other) noexcept {
    count += other.count;
    bytes += other.bytes;
    return *this;
  }
};

struct Statistics {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;         ///< get() calls that found no registration
  std::uint64_t evictions = 0;      ///< idle registrations deregistered to make room
  std::uint64_t invalidations = 0;  ///< registrations of which some or all memory was released
  std::uint64_t failures = 0;       ///< get() calls that returned an error
  Amount registered;                ///< at present with the device: in use, idle, or in transition
  Amount idle;                      ///< of these, the ones without leases that serve new requests

  Statistics& operator+=(const Statistics& other) noexcept {
    hits += other.hits;
    misses += other.misses;
    evictions += other.evictions;
    invalidations += other.invalidations;
    failures += other.failures;
    registered += other.registered;
    idle += other.idle;
    return *this;
  }
};

}  // namespace opal::rcache
