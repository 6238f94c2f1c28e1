// SPDX-License-Identifier: Apache-2.0
// mpi_shim/datatype/construction/arguments.hpp — reads a list of integers, which may come from a peer, from the front.
// After a read beyond the end, every further read returns 0 or an empty list.  A value; borrows the list.
#pragma once
#include "mpi_shim/datatype/construction/constructors.hpp"

namespace mpi_shim::datatype {

class Arguments {
 public:
  explicit Arguments(Counts words) noexcept : words_(words) {}

  std::int64_t next() noexcept {
    const Counts one = list(1);
    return one.empty() ? 0 : one.front();
  }
  /// The next `count` integers; a view into the borrowed list.
  Counts list(std::int64_t count) noexcept {
    if (count < 0 || static_cast<std::uint64_t>(count) > words_.size()) missing_ = true;
    if (missing_) return {};
    const Counts taken = words_.first(static_cast<std::size_t>(count));
    words_ = words_.subspan(taken.size());
    return taken;
  }

  /// Whether all integers have been read.
  [[nodiscard]] bool empty() const noexcept { return words_.empty(); }
  /// Whether no read went beyond the end.
  [[nodiscard]] bool sufficed() const noexcept { return !missing_; }
  /// Whether the reads have consumed exactly the list.
  [[nodiscard]] bool fit() const noexcept { return sufficed() && empty(); }

 private:
  Counts words_;
  bool missing_ = false;
};

/// construct() for MPI_Type_create_darray (darray.cpp).
opal::Result<DatatypeRef> construct_darray(Recipe recipe);

}  // namespace mpi_shim::datatype
