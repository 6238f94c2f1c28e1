// SPDX-License-Identifier: Apache-2.0
// tests/bench/ucx_cache.hpp — UCX's registration cache (ucs_rcache, public API of libucs), with register
// and deregister functions that do nothing, for comparison with OPAL's.  libucs is loaded at run time.
// Thread-safe.
#pragma once
extern "C" {
#include <ucs/memory/rcache.h>
}
#include <dlfcn.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "opal/core/result.hpp"

namespace opal::perf {

class UcxCache {
 public:
  /// Makes a cache of at most `limit` registrations (0: no limit).  Errors: not_supported (no libucs), internal
  /// (ucs_rcache_create failed).
  static Result<std::unique_ptr<UcxCache>> open(std::uint64_t limit) {
    if (!ucs().complete) return Error{Errc::not_supported, 0, "libucs.so.0 is not here"};
    static const ucs_rcache_ops_t ops{
        .mem_reg = [](void*, ucs_rcache_t*, void*, ucs_rcache_region_t*, std::uint16_t) { return UCS_OK; },
        .mem_dereg = [](void*, ucs_rcache_t*, ucs_rcache_region_t*) {},
        .dump_region = [](void*, ucs_rcache_t*, ucs_rcache_region_t*, char* text, std::size_t) { *text = '\0'; }};
    constexpr std::size_t kPage = 4096;
    ucs_rcache_params_t params{};
    params.region_struct_size = sizeof(ucs_rcache_region_t);
    params.alignment = kPage;
    params.max_alignment = kPage;
    params.ops = &ops;
    params.flags = UCS_RCACHE_FLAG_NO_PFN_CHECK;
    params.max_regions = limit != 0 ? limit : ~0UL;
    params.max_size = ~std::size_t{0};
    params.max_unreleased = ~std::size_t{0};
    std::unique_ptr<UcxCache> cache{new UcxCache};
    if (ucs().create(&params, "opal-perf", nullptr, &cache->cache_) != UCS_OK) {
      return Error{Errc::internal, 0, "ucs_rcache_create"};
    }
    return cache;
  }
  ~UcxCache() {
    if (cache_ != nullptr) ucs().destroy(cache_);
  }
  UcxCache(const UcxCache&) = delete;
  UcxCache& operator=(const UcxCache&) = delete;

  /// Gets the registration of the memory and releases it.  Requires: the memory is mapped.  Errors: internal
  /// (ucs_rcache_get failed).
  Result<void> touch(std::byte* address, std::size_t size) noexcept {
    return use(address, size, [](ucs_rcache_region_t*) {});
  }
  /// Invalidates the registration of the memory.  Errors: internal.
  Result<void> invalidate(std::byte* address, std::size_t size) noexcept {
    return use(address, size, [this](ucs_rcache_region_t* region) {
      ucs().invalidate(
          cache_, region, [](void*) {}, nullptr);
    });
  }

 private:
  struct Library {
    template <class Function>
    void find(void* library, const char* name, Function*& function) {
      function = reinterpret_cast<Function*>(::dlsym(library, name));
      complete = complete && function != nullptr;
    }
    Library() {
      void* const library = ::dlopen("libucs.so.0", RTLD_NOW | RTLD_LOCAL);  // stays: it has hooks in this process
      complete = library != nullptr;
      if (!complete) return;
      find(library, "ucs_rcache_create", create);
      find(library, "ucs_rcache_destroy", destroy);
      find(library, "ucs_rcache_get", get);
      find(library, "ucs_rcache_region_put", put);
      find(library, "ucs_rcache_region_invalidate", invalidate);
    }
    bool complete = false;
    decltype(::ucs_rcache_create)* create = nullptr;
    decltype(::ucs_rcache_destroy)* destroy = nullptr;
    decltype(::ucs_rcache_get)* get = nullptr;
    decltype(::ucs_rcache_region_put)* put = nullptr;
    decltype(::ucs_rcache_region_invalidate)* invalidate = nullptr;
  };
  static const Library& ucs() {
    static const Library library;
    return library;
  }
  template <class Use>
  Result<void> use(std::byte* address, std::size_t size, Use with) noexcept {
    ucs_rcache_region_t* region = nullptr;
    if (ucs().get(cache_, address, size, PROT_READ | PROT_WRITE, nullptr, &region) != UCS_OK) {
      return Error{Errc::internal, 0, "ucs_rcache_get"};
    }
    with(region);
    ucs().put(cache_, region);
    return {};
  }

  UcxCache() = default;
  ucs_rcache_t* cache_ = nullptr;
};

}  // namespace opal::perf
