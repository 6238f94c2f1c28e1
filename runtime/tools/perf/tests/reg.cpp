// SPDX-License-Identifier: Apache-2.0
// The registration cache over a device that costs nothing, so that only the cache is measured; and what a registration
// costs that is not cached, as far as any machine can show: pinning and unpinning the pages.
#include "runtime/tools/perf/tests/reg.hpp"

#include <sys/mman.h>

#include <cerrno>

namespace opal::perf {

Result<void> registration_cache(const Plan& plan, const Report& report) {
  const Measurement measurement{plan, report};
  Regions all;
  OPAL_TRY_ASSIGN(all.memory, Mapping::anonymous(2 * Regions::kMost * kCachePage, false));
  for (const std::uint64_t regions : kCacheRegions) {
    for (const std::uint64_t threads : kCacheThreads) {
      OPAL_TRY(measure_cache<OpalCache>(measurement, "", all, regions, threads));
    }
  }
  OPAL_TRY_ASSIGN(const Mapping memory, Mapping::anonymous(16 * kCachePage));
  if (::mlock(memory.data(), kCachePage) != 0) return {};  // RLIMIT_MEMLOCK
  return measurement("uncached: mlock and munlock", 1, 1, 20'000,
                     [&](std::uint64_t, std::uint64_t count) -> Result<void> {
                       for (std::uint64_t i = 0; i < count; ++i) {
                         if (::mlock(memory.data(), kCachePage) != 0) return Error{Errc::os, errno, "mlock(one page)"};
                         if (::munlock(memory.data(), kCachePage) != 0)
                           return Error{Errc::os, errno, "munlock(one page)"};
                       }
                       return {};
                     });
}

}  // namespace opal::perf
