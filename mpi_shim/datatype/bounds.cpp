// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/datatype/bounds.hpp"

#include <algorithm>

namespace mpi_shim::datatype {

Bounds Bounds::of_element(std::int64_t size, std::int64_t span, std::int64_t alignment) noexcept {
  Bounds bounds;
  bounds.size = size;
  bounds.true_ub = span;
  bounds.alignment = alignment;
  return bounds;
}

std::int64_t Bounds::ub() const noexcept {
  if (has_markers) return marker_ub;
  const std::int64_t beyond = (true_ub - true_lb) % alignment;
  return beyond == 0 ? true_ub : true_ub + (alignment - beyond);
}

bool Bounds::fits() const noexcept {
  std::int64_t extent = 0;
  std::int64_t rounded = 0;
  return !__builtin_sub_overflow(true_ub, true_lb, &extent) && !__builtin_add_overflow(extent, alignment, &rounded) &&
         !__builtin_add_overflow(true_ub, alignment, &rounded) &&
         (!has_markers || !__builtin_sub_overflow(marker_ub, marker_lb, &extent));
}

bool Bounds::add(const Bounds& part, std::int64_t count, std::int64_t stride, std::int64_t offset) noexcept {
  if (count == 0) return true;
  std::int64_t last = 0;
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
  if (__builtin_mul_overflow(count - 1, stride, &last) ||
      __builtin_add_overflow(offset, std::min<std::int64_t>(0, last), &lowest) ||
      __builtin_add_overflow(offset, std::max<std::int64_t>(0, last), &highest)) {
    return false;
  }
  if (part.size > 0) {
    std::int64_t bytes = 0;
    std::int64_t lb = 0;
    std::int64_t ub = 0;
    if (__builtin_mul_overflow(count, part.size, &bytes) || __builtin_add_overflow(lowest, part.true_lb, &lb) ||
        __builtin_add_overflow(highest, part.true_ub, &ub)) {
      return false;
    }
    true_lb = size > 0 ? std::min(true_lb, lb) : lb;
    true_ub = size > 0 ? std::max(true_ub, ub) : ub;
    if (__builtin_add_overflow(size, bytes, &size)) return false;
  }
  if (part.has_markers) {
    std::int64_t lb = 0;
    std::int64_t ub = 0;
    if (__builtin_add_overflow(part.marker_lb, lowest, &lb) || __builtin_add_overflow(part.marker_ub, highest, &ub)) {
      return false;
    }
    marker_lb = has_markers ? std::min(marker_lb, lb) : lb;
    marker_ub = has_markers ? std::max(marker_ub, ub) : ub;
    has_markers = true;
  }
  alignment = std::max(alignment, part.alignment);
  return fits();
}

}  // namespace mpi_shim::datatype
