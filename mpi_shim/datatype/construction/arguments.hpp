// SPDX-License-Identifier: Apache-2.0
// mpi_shim/datatype/construction/arguments.hpp — reads the integers of a recipe from the front.  A value; borrows the
// list.  Requires: the recipe has all arguments of its constructor.
#pragma once
#include "mpi_shim/datatype/construction/constructors.hpp"

namespace mpi_shim::datatype {

class Arguments {
 public:
  explicit Arguments(Counts words) noexcept : words_(words) {}

  std::int64_t next() noexcept { return list(1).front(); }
  /// The next `count` integers; a view into the borrowed list.
  Counts list(std::int64_t count) noexcept {
    const Counts taken = words_.first(static_cast<std::size_t>(count));
    words_ = words_.subspan(taken.size());
    return taken;
  }

 private:
  Counts words_;
};

/// construct() for MPI_Type_create_darray (darray.cpp).
opal::Result<DatatypeRef> construct_darray(Recipe recipe);

}  // namespace mpi_shim::datatype
