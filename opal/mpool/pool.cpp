// SPDX-License-Identifier: Apache-2.0
#include "opal/mpool/pool.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "opal/core/log.hpp"
#include "opal/core/text.hpp"
#include "opal/gpu/gpu.hpp"
#include "opal/mpool/mapped_pool.hpp"
#include "opal/mpool/shared_directory.hpp"

namespace opal::mpool {
namespace {

constexpr const char* kKnown = "known are heap, hugepage, shared, hugepage,shared and cuda_host";

Error bad_hint(std::string_view hint, const std::string& problem) {
  const char* text = kept_for_ever(fmt::format("memory pool hint \"{}\": {}; {}", hint, problem, kKnown));
  log::error("mpool", "{}", text);
  return Error{Errc::invalid_argument, 0, text};
}

}  // namespace

Result<std::unique_ptr<Pool>> open(std::string_view hint, const Config& config) {
  constexpr std::string_view kWords[] = {"heap", "hugepage", "cuda_host", "shared"};
  constexpr unsigned kHeap = 1, kHuge = 2, kCudaHost = 4, kShared = 8;
  unsigned asked = 0;
  for (const std::string_view part : split(hint, ',')) {
    const auto* const word = std::find(std::begin(kWords), std::end(kWords), trimmed(part));
    if (word == std::end(kWords)) return bad_hint(hint, fmt::format("\"{}\" is unknown", trimmed(part)));
    asked |= 1U << (word - kWords);
  }
  const auto mapped = [](MappedPool::Kind kind) { return std::unique_ptr<Pool>{std::make_unique<MappedPool>(kind)}; };
  switch (asked) {
    case kHeap: return mapped(MappedPool::Kind::heap);
    case kHuge: return mapped(MappedPool::Kind::hugepage);
    case kCudaHost: OPAL_TRY(gpu::usable()); return mapped(MappedPool::Kind::cuda_host);
    case kShared:
    case kShared | kHuge: return open_shared_memory_pool(config, (asked & kHuge) != 0);
    default: return bad_hint(hint, "\"heap\" and \"cuda_host\" stand alone");
  }
}

}  // namespace opal::mpool
