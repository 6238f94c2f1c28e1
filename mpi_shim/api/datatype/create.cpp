// SPDX-License-Identifier: Apache-2.0
// MPI_Type_contiguous and the other type constructors.
#include <string_view>
#include <vector>

#include "mpi_shim/abi/forward.hpp"
#include "mpi_shim/api/call.hpp"
#include "mpi_shim/datatype/construction/constructors.hpp"
#include "mpi_shim/datatype/construction/fortran_kinds.hpp"

namespace mpi_shim::api {
namespace {

int fail(Call& call, const Error& why) {
  switch (why.code) {
    case Errc::no_memory: return call.fail(MPI_ERR_NO_MEM, "no memory for the datatype");
    case Errc::limit_reached: return call.fail(MPI_ERR_ARG, "the datatype would reach beyond 2^63 bytes");
    default: return call.fail(MPI_ERR_ARG, std::string{"the arguments describe no datatype: "} + why.where);
  }
}

/// One call of a type constructor.  The functions append the arguments to the recipe, in the order of
/// MPI_Type_get_contents; make() creates the datatype.
class Construction {
 public:
  Construction(const char* function, datatype::Combiner combiner, MPI_Datatype* newtype)
      : call_{function}, newtype_(newtype) {
    recipe_.combiner = combiner;
    recipe_.large_counts = std::string_view{function}.ends_with("_c");
    call_.pointer(newtype, "newtype");
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
    if (datatype::Datatype* const type = call_.any_type(part, argument))
      recipe_.types.push_back(datatype::DatatypeRef::share(*type));
    return *this;
  }
  Construction& of_each(const MPI_Datatype* types) {
    if (count_ > 0) call_.pointer(types, "array_of_types");
    for (MPI_Count i = 0; i < count_ && !call_.failed(); ++i) of(types[i], "array_of_types");
    return *this;
  }

  int make() {
    if (call_.failed()) return call_.error();
    Result<datatype::DatatypeRef> made = construct(std::move(recipe_));
    if (!made) return fail(call_, made.error());
    *newtype_ = handle::to_handle<MPI_Datatype>(*made->detach());  // the application's reference
    return MPI_SUCCESS;
  }

 private:
  template <class Integer>
  Construction& list(std::vector<std::int64_t>& target, const Integer* values, const char* argument) {
    if (count_ > 0) call_.pointer(values, argument);
    if (!call_.failed()) target.insert(target.end(), values, values + count_);
    return *this;
  }

  Call call_;
  MPI_Datatype* newtype_;
  datatype::Recipe recipe_;
  MPI_Count count_ = 0;
};

int contiguous(const char* function, MPI_Count count, MPI_Datatype oldtype, MPI_Datatype* newtype) {
  return Construction{function, datatype::Combiner::contiguous, newtype}.count(count).of(oldtype).make();
}

int vector(const char* function, MPI_Count count, MPI_Count length, MPI_Count stride, MPI_Datatype oldtype,
           MPI_Datatype* newtype) {
  Construction it{function, datatype::Combiner::vector, newtype};
  return it.count(count).integer(length).integer(stride).of(oldtype).make();
}

int hvector(const char* function, MPI_Count count, MPI_Count length, MPI_Count stride, MPI_Datatype oldtype,
            MPI_Datatype* newtype) {
  Construction it{function, datatype::Combiner::hvector, newtype};
  return it.count(count).integer(length).address(stride).of(oldtype).make();
}

template <class Count, class Displacement>
int indexed(const char* function, MPI_Count count, const Count* lengths, const Displacement* displacements,
            MPI_Datatype oldtype, MPI_Datatype* newtype, datatype::Combiner combiner) {
  Construction it{function, combiner, newtype};
  return it.count(count).integers(lengths, "array_of_blocklengths").displacements(displacements).of(oldtype).make();
}

template <class Displacement>
int indexed_block(const char* function, MPI_Count count, MPI_Count length, const Displacement* displacements,
                  MPI_Datatype oldtype, MPI_Datatype* newtype, datatype::Combiner combiner) {
  Construction it{function, combiner, newtype};
  return it.count(count).integer(length).displacements(displacements).of(oldtype).make();
}

template <class Count, class Displacement>
int structure(const char* function, MPI_Count count, const Count* lengths, const Displacement* displacements,
              const MPI_Datatype* types, MPI_Datatype* newtype) {
  Construction it{function, datatype::Combiner::structure, newtype};
  return it.count(count).integers(lengths, "array_of_blocklengths").displacements(displacements).of_each(types).make();
}

int resized(const char* function, MPI_Datatype oldtype, MPI_Count lb, MPI_Count extent, MPI_Datatype* newtype) {
  return Construction{function, datatype::Combiner::resized, newtype}.address(lb).address(extent).of(oldtype).make();
}

template <class Count>
int subarray(const char* function, int ndims, const Count* sizes, const Count* subsizes, const Count* starts, int order,
             MPI_Datatype oldtype, MPI_Datatype* newtype) {
  Construction it{function, datatype::Combiner::subarray, newtype};
  it.count(ndims).integers(sizes, "array_of_sizes").integers(subsizes, "array_of_subsizes");
  return it.integers(starts, "array_of_starts").integer(order).of(oldtype).make();
}

template <class Count>
int darray(const char* function, int size, int rank, int ndims, const Count* gsizes, const int* distribs,
           const int* dargs, const int* psizes, int order, MPI_Datatype oldtype, MPI_Datatype* newtype) {
  Construction it{function, datatype::Combiner::darray, newtype};
  it.integer(size).integer(rank).count(ndims).integers(gsizes, "array_of_gsizes");
  it.integers(distribs, "array_of_distribs").integers(dargs, "array_of_dargs");
  return it.integers(psizes, "array_of_psizes").integer(order).of(oldtype).make();
}

int by_fortran_kind(const char* function, int precision, int range, MPI_Datatype* newtype,
                    datatype::Combiner combiner) {
  Call call{function};
  call.pointer(newtype, "newtype");
  if (call.failed()) return call.error();
  const auto found = datatype::fortran_kind(combiner, precision, range);
  if (!found) return fail(call, found.error());
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
OPAL_MPI_FUNCTION(int, Type_create_f90_integer, (int r, MPI_Datatype* newtype)) {
  return by_fortran_kind("MPI_Type_create_f90_integer", MPI_UNDEFINED, r, newtype, datatype::Combiner::f90_integer);
}
OPAL_MPI_FUNCTION(int, Type_dup, (MPI_Datatype oldtype, MPI_Datatype* newtype)) {
  const int error = Construction{"MPI_Type_dup", datatype::Combiner::dup, newtype}.of(oldtype).make();
  if (error != MPI_SUCCESS) return error;
  Call call{"MPI_Type_dup"};
  datatype::Datatype& made = *handle::find<datatype::Datatype>(*newtype);
  const int refused = call.any_type(oldtype)->attributes.copy_to(oldtype, made.attributes);
  if (refused == MPI_SUCCESS) return MPI_SUCCESS;
  made.attributes.clear_all(*newtype);
  made.retire();
  *newtype = MPI_DATATYPE_NULL;  // as the standard requires after an error of a copy callback
  return call.finish(refused);
}

}  // namespace mpi_shim::api
