// SPDX-License-Identifier: Apache-2.0
// opal/mpool/page_kind.hpp — what backs the pages of a pool.
#pragma once
#include <cstdint>

#include "opal/core/export.hpp"

namespace opal::mpool {

enum class PageKind : std::uint8_t {
  base,         ///< pages of the machine's base size
  transparent,  ///< base pages which the kernel was asked to merge into huge ones
  hugetlb,      ///< pages reserved by the administrator (hugetlbfs)
};

/// "base pages", "transparent huge pages", "hugetlb pages".  Static lifetime.
OPAL_EXPORT const char* name(PageKind kind) noexcept;

}  // namespace opal::mpool
