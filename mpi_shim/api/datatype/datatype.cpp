// SPDX-License-Identifier: Apache-2.0
// Datatypes: commit, free, size, extent.
#include "mpi_shim/api/forward.hpp"

namespace mpi_shim::api {
namespace {

template <class Integer>
int size_of(Call& call, MPI_Datatype datatype, Integer* size) {
  return call.answer(size, narrowed<Integer>(call.any_type(datatype)->size()));
}

template <class Integer>
int bounds_of(Call& call, MPI_Datatype datatype, Integer* lb, Integer* extent, bool of_the_data) {
  const datatype::Datatype* const type = call.any_type(datatype);
  *lb = of_the_data ? type->true_lb() : type->lb();
  *extent = of_the_data ? type->true_extent() : type->extent();
  return MPI_SUCCESS;
}

}  // namespace

OPAL_MPI_CALL(Type_commit, (Call & call, MPI_Datatype* datatype)) {
  call.any_type(*datatype)->commit();
  return MPI_SUCCESS;
}

OPAL_MPI_CALL(Type_free, (Call & call, MPI_Datatype* datatype)) {
  datatype::Datatype* const type = call.any_type(*datatype);
  if (type->predefined_handle() != 0) call.fail(MPI_ERR_TYPE, "a predefined datatype cannot be freed");
  call.finish(type->attributes.clear(*datatype));
  type->retire();
  *datatype = MPI_DATATYPE_NULL;
  return MPI_SUCCESS;
}

OPAL_MPI_FORWARD_BOTH(Type_size, size_of)
OPAL_MPI_FORWARD(Type_size_x, size_of)
OPAL_MPI_FORWARD_BOTH(Type_get_extent, bounds_of, false)
OPAL_MPI_FORWARD(Type_get_extent_x, bounds_of, false)
OPAL_MPI_FORWARD_BOTH(Type_get_true_extent, bounds_of, true)
OPAL_MPI_FORWARD(Type_get_true_extent_x, bounds_of, true)

}  // namespace mpi_shim::api
