// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/datatype/bounds.hpp"

#include <algorithm>

namespace mpi_shim::datatype {

std::int64_t Bounds::ub() const noexcept {
  if (has_markers) return marker_ub;
  const std::int64_t beyond = (true_ub - true_lb) % alignment;
  return beyond == 0 ? true_ub : true_ub + (alignment - beyond);
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
  // Extends [lb, ub), if it is set, to the bounds of all copies.
  const auto extend = [&](std::int64_t& lb, std::int64_t& ub, bool is_set, std::int64_t part_lb, std::int64_t part_ub) {
    std::int64_t low = 0;
    std::int64_t high = 0;
    if (__builtin_add_overflow(lowest, part_lb, &low) || __builtin_add_overflow(highest, part_ub, &high)) return false;
    lb = is_set ? std::min(lb, low) : low;
    ub = is_set ? std::max(ub, high) : high;
    return true;
  };
  if (part.size > 0) {
    std::int64_t bytes = 0;
    if (__builtin_mul_overflow(count, part.size, &bytes) ||
        !extend(true_lb, true_ub, size > 0, part.true_lb, part.true_ub) || __builtin_add_overflow(size, bytes, &size)) {
      return false;
    }
  }
  if (part.has_markers) {
    if (!extend(marker_lb, marker_ub, has_markers, part.marker_lb, part.marker_ub)) return false;
    has_markers = true;
  }
  alignment = std::max(alignment, part.alignment);
  std::int64_t extent = 0;
  std::int64_t rounded = 0;
  return !__builtin_sub_overflow(true_ub, true_lb, &extent) && !__builtin_add_overflow(extent, alignment, &rounded) &&
         !__builtin_add_overflow(true_ub, alignment, &rounded) &&
         (!has_markers || !__builtin_sub_overflow(marker_ub, marker_lb, &extent));
}

}  // namespace mpi_shim::datatype
