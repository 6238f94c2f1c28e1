// SPDX-License-Identifier: Apache-2.0
// runtime/tools/perf/tests/ucx_cache.hpp — UCX's registration cache (ucs_rcache, public API of libucs) over a device
// that costs nothing, to be measured beside OPAL's.  Loaded at run time: opal-perf does not depend on UCX. Threads:
// safe from any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "opal/core/result.hpp"

struct ucs_rcache;

namespace opal::perf {

class UcxCache {
 public:
  /// Keeps at most `limit` registrations (0: any number).  Errors: not_supported (its library is not there), internal
  /// (it refused).
  static Result<std::unique_ptr<UcxCache>> open(std::uint64_t limit);
  ~UcxCache();
  UcxCache(const UcxCache&) = delete;
  UcxCache& operator=(const UcxCache&) = delete;

  /// Gets and gives back.  The memory is mapped.  Errors: internal (it refused).
  Result<void> touch(std::byte* address, std::size_t size) noexcept;
  /// The memory's registration is not used again.
  Result<void> invalidate(std::byte* address, std::size_t size) noexcept;

 private:
  UcxCache() = default;
  ucs_rcache* cache_ = nullptr;
};

}  // namespace opal::perf
