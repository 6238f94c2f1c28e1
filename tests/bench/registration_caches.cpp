// SPDX-License-Identifier: Apache-2.0
// registration_caches [ITERATIONS]: what opal-perf reg measures, of OPAL's registration cache and of UCX's by turns, so
// that other load on the machine affects both.
#include <fmt/format.h>

#include <cstdlib>

#include "runtime/tools/perf/tests/reg.hpp"
#include "tests/bench/ucx_cache.hpp"

namespace opal::perf {
namespace {

Result<void> measure(const Measurement& measurement) {
  Regions all;
  OPAL_TRY_ASSIGN(all.memory, Mapping::anonymous(2 * Regions::kMost * kCachePage, false));
  for (const std::uint64_t regions : kCacheRegions) {
    for (const std::uint64_t threads : kCacheThreads) {
      OPAL_TRY(measure_cache<OpalCache>(measurement, "", all, regions, threads));
      OPAL_TRY(measure_cache<UcxCache>(measurement, ", UCX", all, regions, threads));
    }
  }
  return {};
}

}  // namespace
}  // namespace opal::perf

int main(int argc, char** argv) {
  opal::perf::TablePrinter table;
  const opal::perf::Report report = [&](const opal::perf::Row& row) { table.print(row); };
  opal::perf::Plan plan;
  if (argc > 1) plan.iterations = std::strtoull(argv[1], nullptr, 10);
  const auto done = opal::perf::measure(opal::perf::Measurement{plan, report});
  if (!done) fmt::print(stderr, "registration_caches: {}\n", opal::to_string(done.error()));
  return done ? 0 : 1;
}
