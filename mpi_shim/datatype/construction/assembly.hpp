// SPDX-License-Identifier: Apache-2.0
// mpi_shim/datatype/construction/assembly.hpp — builds bounds and layout of one datatype together.
// Owned by the type constructor that uses it.  Threads: one.  Requires: the parts outlive the Assembly.
// Each step checks the bounds first, so that the layout never overflows.  After an overflow, further steps do
// nothing and finish() returns the error.
#pragma once
#include <cstdint>
#include <vector>

#include "mpi_shim/datatype/datatype.hpp"
#include "opal/core/result.hpp"

namespace mpi_shim::datatype {

class Assembly {
 public:
  /// Appends `count` copies of `part`, `stride` bytes apart, the first at `offset`.
  void add(const Datatype& part, std::int64_t count, std::int64_t stride, std::int64_t offset) {
    failed_ = failed_ || !bounds_.add(part.bounds(), count, stride, offset);
    if (failed_) return;
    layout_.add(part.layout(), count, stride, offset);
  }

  /// Repeats everything added so far `count` times, `stride` bytes apart.
  void repeat(std::int64_t count, std::int64_t stride) {
    Bounds repeated;
    failed_ = failed_ || !repeated.add(bounds_, count, stride, 0);
    if (failed_) return;
    bounds_ = repeated;
    layout_.repeat(count, stride);
  }

  /// Moves everything added so far by `offset` bytes.
  void shift(std::int64_t offset) {
    Bounds moved;
    failed_ = failed_ || !moved.add(bounds_, 1, 0, offset);
    if (failed_) return;
    bounds_ = moved;
    layout_.shift(offset);
  }

  /// Sets explicit bounds.
  void set_markers(std::int64_t lb, std::int64_t ub) noexcept {
    bounds_.marker_lb = lb;
    bounds_.marker_ub = ub;
    bounds_.has_markers = true;
  }

  /// The datatype, uncommitted.  Errors: limit_reached (a size or bound beyond 63 bits, too many blocks), no_memory.
  opal::Result<DatatypeRef> finish(Recipe recipe) && {
    Layout layout = std::move(layout_).finish();
    if (failed_ || layout_.overflowed())
      return opal::Error{opal::Errc::limit_reached, 0, "size or bounds of a datatype"};
    return handle::create<Datatype>(bounds_, std::move(layout), std::move(recipe));
  }

 private:
  Bounds bounds_;
  LayoutBuilder layout_;
  bool failed_ = false;
};

}  // namespace mpi_shim::datatype
