// SPDX-License-Identifier: Apache-2.0
#include "opal/mpool/pool.hpp"

#include <fmt/format.h>

#include <mutex>
#include <set>
#include <string>

#include "opal/core/log.hpp"
#include "opal/core/text.hpp"
#include "opal/gpu/gpu.hpp"
#include "opal/mpool/cuda_host_pool.hpp"
#include "opal/mpool/mapped_pools.hpp"
#include "opal/mpool/shared_memory_pool.hpp"

namespace opal::mpool {
namespace {

constexpr const char* kKnown = "known are heap, hugepage, shared, hugepage,shared and cuda_host";

/// Error::where lives for ever.  A program that keeps inventing hints gets the short text instead of a leak.
const char* kept_for_ever(const std::string& text) {
  static std::mutex mutex;
  static std::set<std::string> texts;
  constexpr std::size_t kMost = 64;
  const std::lock_guard lock{mutex};
  if (const auto found = texts.find(text); found != texts.end()) return found->c_str();
  if (texts.size() >= kMost)
    return "mpool::open(bad hint; known are heap, hugepage, shared, hugepage,shared and cuda_host)";
  return texts.insert(text).first->c_str();
}

Error bad_hint(std::string_view hint, const std::string& problem) {
  const char* text = kept_for_ever(fmt::format("memory pool hint \"{}\": {}; {}", hint, problem, kKnown));
  log::error("mpool", "{}", text);
  return Error{Errc::invalid_argument, 0, text};
}

}  // namespace

const char* name(PageKind kind) noexcept {
  switch (kind) {
    case PageKind::base: return "base pages";
    case PageKind::transparent: return "transparent huge pages";
    case PageKind::hugetlb: return "hugetlb pages";
  }
  return "unknown pages";
}

Result<std::unique_ptr<Pool>> open(std::string_view hint, const Config& config) {
  bool heap = false;
  bool huge = false;
  bool shared = false;
  bool cuda_host = false;
  for (const std::string_view part : split(hint, ',')) {
    const std::string_view word = trimmed(part);
    if (word == "heap") {
      heap = true;
    } else if (word == "hugepage") {
      huge = true;
    } else if (word == "shared") {
      shared = true;
    } else if (word == "cuda_host") {
      cuda_host = true;
    } else {
      return bad_hint(hint, fmt::format("\"{}\" is unknown", word));
    }
  }
  if (heap && (huge || shared)) return bad_hint(hint, "\"heap\" stands alone");
  if (cuda_host && (heap || huge || shared)) return bad_hint(hint, "\"cuda_host\" stands alone");
  if (cuda_host) {
    OPAL_TRY(gpu::usable());
    return std::unique_ptr<Pool>{std::make_unique<CudaHostPool>()};
  }
  if (shared) return SharedMemoryPool::open(config, huge);
  if (huge) return std::unique_ptr<Pool>{std::make_unique<HugePool>()};
  if (heap) return std::unique_ptr<Pool>{std::make_unique<HeapPool>()};
  return bad_hint(hint, "says nothing");
}

}  // namespace opal::mpool
