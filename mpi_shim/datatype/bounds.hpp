// SPDX-License-Identifier: Apache-2.0
// mpi_shim/datatype/bounds.hpp — size, lower and upper bound of a typemap, computed as the standard defines them.
// Without explicit bounds the extent is that of the data, rounded up to the strictest alignment in it; where a part was
// resized, the explicit bounds alone count, however deep they are nested.  Threads: a value.
// Invariants: every offset of the data lies in [true_lb, true_ub); all sums were checked, so later ones cannot
// overflow.
#pragma once
#include <cstdint>

namespace mpi_shim::datatype {

struct Bounds {
  std::int64_t size = 0;       ///< bytes of data
  std::int64_t true_lb = 0;    ///< first byte of data; 0 without any
  std::int64_t true_ub = 0;    ///< one behind the last byte of data
  std::int64_t marker_lb = 0;  ///< explicit bounds, when `has_markers`
  std::int64_t marker_ub = 0;
  std::int64_t alignment = 1;  ///< the strictest of the elements
  bool has_markers = false;

  /// Bounds of one element: `size` data bytes that span `span` bytes from 0.
  static Bounds of_element(std::int64_t size, std::int64_t span, std::int64_t alignment) noexcept;

  [[nodiscard]] std::int64_t lb() const noexcept { return has_markers ? marker_lb : true_lb; }
  [[nodiscard]] std::int64_t ub() const noexcept;
  [[nodiscard]] std::int64_t extent() const noexcept { return ub() - lb(); }
  [[nodiscard]] std::int64_t true_extent() const noexcept { return true_ub - true_lb; }

  /// Joins `count` copies of `part`, `stride` bytes apart, the first at `offset`.  False when a bound leaves 64 bits.
  [[nodiscard]] bool add(const Bounds& part, std::int64_t count, std::int64_t stride, std::int64_t offset) noexcept;

 private:
  [[nodiscard]] bool fits() const noexcept;
};

}  // namespace mpi_shim::datatype
