// SPDX-License-Identifier: Apache-2.0
// MPI_Type_contiguous and the other type constructors.
#include <string_view>
#include <vector>

#include "mpi_shim/api/forward.hpp"
#include "mpi_shim/datatype/construction/constructors.hpp"

namespace mpi_shim::api {
namespace {

[[noreturn]] void fail(Call& call, const Error& why) {
  switch (why.code) {
    case Errc::no_memory: call.fail(MPI_ERR_NO_MEM, "no memory for the datatype");
    case Errc::limit_reached: call.fail(MPI_ERR_ARG, "the datatype would reach beyond 2^63 bytes");
    default: call.fail(MPI_ERR_ARG, std::string{"the arguments describe no datatype: "} + why.where);
  }
}

/// One call of a type constructor.  The functions append the arguments to the recipe, in the order of
/// MPI_Type_get_contents; make() creates the datatype.
class Construction {
 public:
  Construction(Call& call, datatype::Combiner combiner, MPI_Datatype* newtype) : call_(call), newtype_(newtype) {
    recipe_.combiner = combiner;
    recipe_.large_counts = std::string_view{call.function()}.ends_with("_c");
  }

  /// The argument count; also the length of the following lists.
  Construction& count(MPI_Count count) {
    if (count < 0) call_.fail_count(count);
    count_ = count;
    return integer(count);
  }
  Construction& integer(std::int64_t value) {
    recipe_.integers.push_back(value);
    return *this;
  }
  Construction& address(std::int64_t value) {
    recipe_.addresses.push_back(value);
    return *this;
  }
  template <class Integer>
  Construction& integers(const Integer* values, const char* argument) {
    return list(recipe_.integers, values, argument);
  }
  /// The displacements of MPI_Type_(create_h)indexed(_block) and MPI_Type_create_struct.
  template <class Integer>
  Construction& displacements(const Integer* values) {
    const bool in_extents =
        recipe_.combiner == datatype::Combiner::indexed || recipe_.combiner == datatype::Combiner::indexed_block;
    return list(in_extents ? recipe_.integers : recipe_.addresses, values, "array_of_displacements");
  }
  Construction& of(MPI_Datatype part, const char* argument = "oldtype") {
    recipe_.types.push_back(datatype::DatatypeRef::share(*call_.any_type(part, argument)));
    return *this;
  }
  Construction& of_each(const MPI_Datatype* types) {
    if (count_ > 0) call_.pointer(types, "array_of_types");
    for (MPI_Count i = 0; i < count_; ++i) of(types[i], "array_of_types");
    return *this;
  }

  int make() {
    Result<datatype::DatatypeRef> made = construct(std::move(recipe_));
    if (!made) fail(call_, made.error());
    *newtype_ = handle::to_handle<MPI_Datatype>(*made->detach());  // the application's reference
    return MPI_SUCCESS;
  }

 private:
  template <class Integer>
  Construction& list(std::vector<std::int64_t>& target, const Integer* values, const char* argument) {
    if (count_ > 0) call_.pointer(values, argument);
    target.insert(target.end(), values, values + count_);
    return *this;
  }

  Call& call_;
  MPI_Datatype* newtype_;
  datatype::Recipe recipe_;
  MPI_Count count_ = 0;
};

int contiguous(Call& call, MPI_Count count, MPI_Datatype oldtype, MPI_Datatype* newtype) {
  return Construction{call, datatype::Combiner::contiguous, newtype}.count(count).of(oldtype).make();
}

int vector(Call& call, MPI_Count count, MPI_Count length, MPI_Count stride, MPI_Datatype oldtype,
           MPI_Datatype* newtype) {
  Construction it{call, datatype::Combiner::vector, newtype};
  return it.count(count).integer(length).integer(stride).of(oldtype).make();
}

int hvector(Call& call, MPI_Count count, MPI_Count length, MPI_Count stride, MPI_Datatype oldtype,
            MPI_Datatype* newtype) {
  Construction it{call, datatype::Combiner::hvector, newtype};
  return it.count(count).integer(length).address(stride).of(oldtype).make();
}

template <class Count, class Displacement>
int indexed(Call& call, MPI_Count count, const Count* lengths, const Displacement* displacements, MPI_Datatype oldtype,
            MPI_Datatype* newtype, datatype::Combiner combiner) {
  Construction it{call, combiner, newtype};
  return it.count(count).integers(lengths, "array_of_blocklengths").displacements(displacements).of(oldtype).make();
}

template <class Displacement>
int indexed_block(Call& call, MPI_Count count, MPI_Count length, const Displacement* displacements,
                  MPI_Datatype oldtype, MPI_Datatype* newtype, datatype::Combiner combiner) {
  Construction it{call, combiner, newtype};
  return it.count(count).integer(length).displacements(displacements).of(oldtype).make();
}

template <class Count, class Displacement>
int structure(Call& call, MPI_Count count, const Count* lengths, const Displacement* displacements,
              const MPI_Datatype* types, MPI_Datatype* newtype) {
  Construction it{call, datatype::Combiner::structure, newtype};
  return it.count(count).integers(lengths, "array_of_blocklengths").displacements(displacements).of_each(types).make();
}

int resized(Call& call, MPI_Datatype oldtype, MPI_Count lb, MPI_Count extent, MPI_Datatype* newtype) {
  return Construction{call, datatype::Combiner::resized, newtype}.address(lb).address(extent).of(oldtype).make();
}

template <class Count>
int subarray(Call& call, int ndims, const Count* sizes, const Count* subsizes, const Count* starts, int order,
             MPI_Datatype oldtype, MPI_Datatype* newtype) {
  Construction it{call, datatype::Combiner::subarray, newtype};
  it.count(ndims).integers(sizes, "array_of_sizes").integers(subsizes, "array_of_subsizes");
  return it.integers(starts, "array_of_starts").integer(order).of(oldtype).make();
}

template <class Count>
int darray(Call& call, int size, int rank, int ndims, const Count* gsizes, const int* distribs, const int* dargs,
           const int* psizes, int order, MPI_Datatype oldtype, MPI_Datatype* newtype) {
  Construction it{call, datatype::Combiner::darray, newtype};
  it.integer(size).integer(rank).count(ndims).integers(gsizes, "array_of_gsizes");
  it.integers(distribs, "array_of_distribs").integers(dargs, "array_of_dargs");
  return it.integers(psizes, "array_of_psizes").integer(order).of(oldtype).make();
}

int by_fortran_kind(Call& call, int precision, int range, MPI_Datatype* newtype, datatype::Combiner combiner) {
  const auto found = datatype::fortran_kind(combiner, precision, range);
  if (!found) fail(call, found.error());
  *newtype = handle::to_handle<MPI_Datatype>(**found);
  return MPI_SUCCESS;
}

}  // namespace

OPAL_MPI_FORWARD_BOTH(Type_contiguous, contiguous)
OPAL_MPI_FORWARD_BOTH(Type_vector, vector)
OPAL_MPI_FORWARD_BOTH(Type_create_hvector, hvector)
OPAL_MPI_FORWARD_BOTH(Type_indexed, indexed, datatype::Combiner::indexed)
OPAL_MPI_FORWARD_BOTH(Type_create_hindexed, indexed, datatype::Combiner::hindexed)
OPAL_MPI_FORWARD_BOTH(Type_create_indexed_block, indexed_block, datatype::Combiner::indexed_block)
OPAL_MPI_FORWARD_BOTH(Type_create_hindexed_block, indexed_block, datatype::Combiner::hindexed_block)
OPAL_MPI_FORWARD_BOTH(Type_create_struct, structure)
OPAL_MPI_FORWARD_BOTH(Type_create_resized, resized)
OPAL_MPI_FORWARD_BOTH(Type_create_subarray, subarray)
OPAL_MPI_FORWARD_BOTH(Type_create_darray, darray)
OPAL_MPI_FORWARD(Type_create_f90_real, by_fortran_kind, datatype::Combiner::f90_real)
OPAL_MPI_FORWARD(Type_create_f90_complex, by_fortran_kind, datatype::Combiner::f90_complex)
OPAL_MPI_CALL(Type_create_f90_integer, (Call & call, int r, MPI_Datatype* newtype)) {
  return by_fortran_kind(call, MPI_UNDEFINED, r, newtype, datatype::Combiner::f90_integer);
}
OPAL_MPI_CALL(Type_dup, (Call & call, MPI_Datatype oldtype, MPI_Datatype* newtype)) {
  Construction{call, datatype::Combiner::dup, newtype}.of(oldtype).make();
  datatype::Datatype& made = *handle::find<datatype::Datatype>(*newtype);
  const int refused = call.any_type(oldtype)->attributes.copy_to(oldtype, made.attributes);
  if (refused == MPI_SUCCESS) return MPI_SUCCESS;
  made.attributes.clear_all(*newtype);
  made.retire();
  *newtype = MPI_DATATYPE_NULL;  // as the standard requires after an error of a copy callback
  return call.finish(refused);
}

}  // namespace mpi_shim::api
