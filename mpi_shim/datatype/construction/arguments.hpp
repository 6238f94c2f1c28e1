// SPDX-License-Identifier: Apache-2.0
// mpi_shim/datatype/construction/arguments.hpp — a list of integers that may come from a peer, taken from the front.
// Once there are not enough, all that is taken is 0 or empty.  A value; borrows the list.
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
  Counts list(std::int64_t count) noexcept {
    if (count < 0 || static_cast<std::uint64_t>(count) > words_.size()) missing_ = true;
    if (missing_) return {};
    const Counts taken = words_.first(static_cast<std::size_t>(count));
    words_ = words_.subspan(taken.size());
    return taken;
  }

  [[nodiscard]] bool empty() const noexcept { return words_.empty(); }
  /// Whether there were enough.
  [[nodiscard]] bool sufficed() const noexcept { return !missing_; }
  /// Whether all have been taken, and there were enough.
  [[nodiscard]] bool fit() const noexcept { return sufficed() && empty(); }

 private:
  Counts words_;
  bool missing_ = false;
};

/// MPI_Type_create_darray (darray.cpp).
opal::Result<DatatypeRef> construct_darray(Recipe recipe);

}  // namespace mpi_shim::datatype
