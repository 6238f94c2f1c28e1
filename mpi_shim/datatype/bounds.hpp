// SPDX-License-Identifier: Apache-2.0
// mpi_shim/datatype/bounds.hpp — size, lower and upper bound of a typemap, as the standard defines them; all in bytes.
// Without explicit bounds the extent is that of the data, rounded up to the strictest alignment of the elements.  If a
// part at any depth was resized (MPI_Type_create_resized), only explicit bounds count.  Threads: a value.
// Invariants: every byte of data has an offset in [true_lb, true_ub).  add() has checked all sums for overflow, so the
// functions below need no check.
#pragma once
#include <cstdint>

namespace mpi_shim::datatype {

struct Bounds {
  std::int64_t size = 0;       ///< bytes of data
  std::int64_t true_lb = 0;    ///< first byte of data; 0 without any
  std::int64_t true_ub = 0;    ///< one after the last byte of data
  std::int64_t marker_lb = 0;  ///< the explicit lower bound, if `has_markers`
  std::int64_t marker_ub = 0;  ///< the explicit upper bound, if `has_markers`
  std::int64_t alignment = 1;  ///< the strictest of the elements
  bool has_markers = false;    ///< the type or a part of it has explicit bounds

  [[nodiscard]] std::int64_t lb() const noexcept { return has_markers ? marker_lb : true_lb; }
  [[nodiscard]] std::int64_t ub() const noexcept;
  [[nodiscard]] std::int64_t extent() const noexcept { return ub() - lb(); }
  [[nodiscard]] std::int64_t true_extent() const noexcept { return true_ub - true_lb; }

  /// Adds `count` copies of `part`, `stride` bytes apart, the first at `offset`.  False if a bound does not fit 64
  /// bits; the object is then unusable.
  [[nodiscard]] bool add(const Bounds& part, std::int64_t count, std::int64_t stride, std::int64_t offset) noexcept;
};

}  // namespace mpi_shim::datatype
