// SPDX-License-Identifier: Apache-2.0
// OPAL's registration cache and UCX's (ucs_rcache, of the installed libucs) over devices that cost nothing: the same
// requests in the same run.  Prints CPU time per get and put, median of threads and rounds, and the ratio.
extern "C" {
#include <ucs/memory/rcache.h>
}

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "opal/core/mapping.hpp"
#include "opal/rcache/cache.hpp"
#include "runtime/tools/perf/crowd.hpp"

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::uint64_t kRounds = 5;

struct FreeDevice final : opal::rcache::Device {
  opal::Result<void> register_memory(opal::rcache::Registration&) noexcept override { return {}; }
  void deregister_memory(opal::rcache::Registration&) noexcept override {}
};

class Ours {
 public:
  explicit Ours(std::uint64_t limit) : cache_(device_, config(limit)) {}
  bool touch(std::byte* address) { return static_cast<bool>(cache_.get(address, kPage, 1)); }

 private:
  static opal::rcache::Config config(std::uint64_t limit) {
    opal::rcache::Config config;
    config.count_limit = limit;
    return config;
  }
  FreeDevice device_;
  opal::rcache::Cache cache_;
};

class Ucx {
 public:
  explicit Ucx(std::uint64_t limit) {
    static const ucs_rcache_ops_t ops{
        .mem_reg = [](void*, ucs_rcache_t*, void*, ucs_rcache_region_t*, std::uint16_t) { return UCS_OK; },
        .mem_dereg = [](void*, ucs_rcache_t*, ucs_rcache_region_t*) {},
        .dump_region = [](void*, ucs_rcache_t*, ucs_rcache_region_t*, char* text, std::size_t) { *text = '\0'; }};
    ucs_rcache_params_t params{};
    params.region_struct_size = sizeof(ucs_rcache_region_t);
    params.alignment = kPage;
    params.max_alignment = kPage;
    params.ops = &ops;
    params.flags = UCS_RCACHE_FLAG_NO_PFN_CHECK;
    params.max_regions = limit != 0 ? limit : ~0UL;
    params.max_size = ~std::size_t{0};
    params.max_unreleased = ~std::size_t{0};
    if (ucs_rcache_create(&params, "bench", nullptr, &cache_) != UCS_OK) std::abort();
  }
  Ucx(const Ucx&) = delete;
  Ucx& operator=(const Ucx&) = delete;
  ~Ucx() { ucs_rcache_destroy(cache_); }
  bool touch(std::byte* address) {
    ucs_rcache_region_t* region = nullptr;
    if (ucs_rcache_get(cache_, address, kPage, PROT_READ | PROT_WRITE, nullptr, &region) != UCS_OK) return false;
    ucs_rcache_region_put(cache_, region);
    return true;
  }

 private:
  ucs_rcache_t* cache_ = nullptr;
};

double median(opal::perf::Samples samples) {
  if (samples.ns.empty()) std::abort();
  const auto middle = samples.ns.begin() + static_cast<std::ptrdiff_t>(samples.ns.size() / 2);
  std::nth_element(samples.ns.begin(), middle, samples.ns.end());
  return *middle;
}

template <class Cache>
double hit(std::byte* base, std::uint64_t regions, std::uint64_t threads, bool anywhere) {
  Cache cache{0};
  for (int twice = 0; twice < 2; ++twice) {
    for (std::uint64_t i = 0; i < regions; ++i) cache.touch(base + 2 * i * kPage);
  }
  const std::uint64_t set = anywhere ? regions : std::min<std::uint64_t>(regions, 100);
  return median(opal::perf::crowd(threads, kRounds, 200'000, [&](std::uint64_t t, std::uint64_t count) {
    std::minstd_rand random{static_cast<unsigned>(t + 1)};
    for (std::uint64_t i = 0; i < count; ++i) {
      if (!cache.touch(base + random() % set * (regions / set) * 2 * kPage)) return false;
    }
    return true;
  }));
}

template <class Cache>
double miss(std::byte* base, std::uint64_t regions, std::uint64_t limit) {
  Cache cache{limit};
  for (std::uint64_t i = 0; i < regions; ++i) cache.touch(base + 2 * i * kPage);
  std::uint64_t next = regions;
  return median(opal::perf::crowd(1, kRounds, 5'000, [&](std::uint64_t, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i, ++next) {
      if (!cache.touch(base + 2 * next * kPage)) return false;
    }
    return true;
  }));
}

void print(const char* what, std::uint64_t regions, std::uint64_t threads, double ours, double theirs) {
  std::printf("%-14s %8lu %8lu %10.1f %10.1f %8.2f\n", what, regions, threads, ours, theirs, theirs / ours);
  std::fflush(stdout);
}

}  // namespace

int main() {
  constexpr std::uint64_t kMost = 1'000'000;
  auto memory = opal::Mapping::anonymous(2 * (kMost + 100'000) * kPage, false);
  if (!memory) return 1;
  std::byte* const base = memory->data();
  std::printf("%-14s %8s %8s %10s %10s %8s\n", "what", "regions", "threads", "OPAL ns", "UCX ns", "UCX/OPAL");
  for (const std::uint64_t regions : {std::uint64_t{1}, std::uint64_t{100}, std::uint64_t{10'000}, kMost}) {
    for (const std::uint64_t threads : {1, 2, 4, 8}) {
      print("hit", regions, threads, hit<Ours>(base, regions, threads, false), hit<Ucx>(base, regions, threads, false));
    }
    if (regions > 100) {
      print("hit anywhere", regions, 1, hit<Ours>(base, regions, 1, true), hit<Ucx>(base, regions, 1, true));
    }
    print("miss", regions, 1, miss<Ours>(base, regions, 0), miss<Ucx>(base, regions, 0));
    print("evict", regions, 1, miss<Ours>(base, regions, regions), miss<Ucx>(base, regions, regions));
  }
  return 0;
}
