// SPDX-License-Identifier: Apache-2.0
// The functions that make datatypes out of others.
#include <optional>
#include <string_view>
#include <vector>

#include "mpi_shim/abi/function.hpp"
#include "mpi_shim/api/call.hpp"
#include "mpi_shim/attribute/type_attributes.hpp"
#include "mpi_shim/datatype/construction/constructors.hpp"
#include "mpi_shim/datatype/construction/fortran_kinds.hpp"

namespace {

using mpi_shim::Errc;
using mpi_shim::Result;
using mpi_shim::api::Call;
using mpi_shim::datatype::Combiner;
using mpi_shim::datatype::Datatype;
using mpi_shim::datatype::DatatypeRef;
using mpi_shim::datatype::DistributedArray;
using mpi_shim::datatype::Distribution;
using mpi_shim::datatype::Order;

using List = std::vector<std::int64_t>;

template <class Integer>
List list(Call& call, MPI_Count count, const Integer* values, const char* argument) {
  if (count > 0) call.pointer(values, argument);
  return call.failed() ? List{} : List(values, values + count);
}

/// Functions with large counts are called MPI_..._c.
bool has_large_counts(std::string_view function) { return function.ends_with("_c"); }

int hand_out(Call& call, const char* function, Result<DatatypeRef> made, MPI_Datatype* newtype) {
  if (!made) {
    switch (made.error().code) {
      case Errc::no_memory: return call.fail(MPI_ERR_NO_MEM, "no memory for the datatype");
      case Errc::limit_reached: return call.fail(MPI_ERR_ARG, "the datatype would reach beyond 2^63 bytes");
      default: return call.fail(MPI_ERR_ARG, std::string{"the arguments describe no datatype: "} + made.error().where);
    }
  }
  if (has_large_counts(function)) (*made)->set_made_with_large_counts();
  *newtype = mpi_shim::handle::to_handle<MPI_Datatype>(**made);
  (void)made->detach();  // the program's reference
  return MPI_SUCCESS;
}

/// What all constructors of one part have in common: `make(call, part)` gives the new type.
template <class Make>
int construct(const char* function, MPI_Count count, MPI_Datatype oldtype, MPI_Datatype* newtype, Make&& make) {
  Call call{function};
  if (call.failed()) return call.error();
  if (count < 0) call.fail_count(count);
  Datatype* const part = call.any_type(oldtype, "oldtype");
  call.pointer(newtype, "newtype");
  if (call.failed()) return call.error();
  Result<DatatypeRef> made = make(call, *part);
  return call.failed() ? call.error() : hand_out(call, function, std::move(made), newtype);
}

template <class Count>
int contiguous(const char* function, Count count, MPI_Datatype oldtype, MPI_Datatype* newtype) {
  return construct(function, count, oldtype, newtype,
                   [&](Call&, Datatype& part) { return mpi_shim::datatype::contiguous(count, part); });
}

template <class Count>
int vector(const char* function, Count count, Count length, Count stride, MPI_Datatype oldtype, MPI_Datatype* newtype) {
  return construct(function, count, oldtype, newtype,
                   [&](Call&, Datatype& part) { return mpi_shim::datatype::vector(count, length, stride, part); });
}

int hvector(const char* function, MPI_Count count, MPI_Count length, MPI_Count stride, MPI_Datatype oldtype,
            MPI_Datatype* newtype) {
  return construct(function, count, oldtype, newtype,
                   [&](Call&, Datatype& part) { return mpi_shim::datatype::hvector(count, length, stride, part); });
}

using Indexed = Result<DatatypeRef> (*)(mpi_shim::datatype::Counts, mpi_shim::datatype::Counts, Datatype&);

template <class Count, class Displacement>
int indexed(const char* function, Indexed make, MPI_Count count, const Count* lengths,
            const Displacement* displacements, MPI_Datatype oldtype, MPI_Datatype* newtype) {
  return construct(function, count, oldtype, newtype, [&](Call& call, Datatype& part) -> Result<DatatypeRef> {
    const List blocks = list(call, count, lengths, "array_of_blocklengths");
    const List places = list(call, count, displacements, "array_of_displacements");
    return make(blocks, places, part);
  });
}

using IndexedBlock = Result<DatatypeRef> (*)(std::int64_t, mpi_shim::datatype::Counts, Datatype&);

template <class Displacement>
int indexed_block(const char* function, IndexedBlock make, MPI_Count count, MPI_Count length,
                  const Displacement* displacements, MPI_Datatype oldtype, MPI_Datatype* newtype) {
  return construct(function, count, oldtype, newtype, [&](Call& call, Datatype& part) {
    return make(length, list(call, count, displacements, "array_of_displacements"), part);
  });
}

template <class Count, class Displacement>
int structure(const char* function, MPI_Count count, const Count* lengths, const Displacement* displacements,
              const MPI_Datatype* types, MPI_Datatype* newtype) {
  Call call{function};
  if (call.failed()) return call.error();
  if (count < 0) call.fail_count(count);
  call.pointer(newtype, "newtype");
  if (count > 0) call.pointer(types, "array_of_types");
  if (call.failed()) return call.error();
  const List blocks = list(call, count, lengths, "array_of_blocklengths");
  const List places = list(call, count, displacements, "array_of_displacements");
  std::vector<Datatype*> parts;
  for (MPI_Count i = 0; i < count && !call.failed(); ++i) parts.push_back(call.any_type(types[i], "array_of_types"));
  if (call.failed()) return call.error();
  return hand_out(call, function, mpi_shim::datatype::structure(blocks, places, parts), newtype);
}

int resized(const char* function, MPI_Datatype oldtype, MPI_Count lb, MPI_Count extent, MPI_Datatype* newtype) {
  return construct(function, 0, oldtype, newtype,
                   [&](Call&, Datatype& part) { return mpi_shim::datatype::resized(part, lb, extent); });
}

void check_order(Call& call, int order) {
  if (order != MPI_ORDER_C && order != MPI_ORDER_FORTRAN) {
    call.fail(MPI_ERR_ARG, "argument order is neither MPI_ORDER_C nor MPI_ORDER_FORTRAN");
  }
}

template <class Count>
int subarray(const char* function, int ndims, const Count* sizes, const Count* subsizes, const Count* starts, int order,
             MPI_Datatype oldtype, MPI_Datatype* newtype) {
  return construct(function, ndims, oldtype, newtype, [&](Call& call, Datatype& part) {
    check_order(call, order);
    const List whole = list(call, ndims, sizes, "array_of_sizes");
    const List section = list(call, ndims, subsizes, "array_of_subsizes");
    const List first = list(call, ndims, starts, "array_of_starts");
    return mpi_shim::datatype::subarray(whole, section, first, static_cast<Order>(order), part);
  });
}

template <class Count>
int darray(const char* function, int size, int rank, int ndims, const Count* gsizes, const int* distribs,
           const int* dargs, const int* psizes, int order, MPI_Datatype oldtype, MPI_Datatype* newtype) {
  return construct(function, ndims, oldtype, newtype, [&](Call& call, Datatype& part) {
    check_order(call, order);
    const List sizes = list(call, ndims, gsizes, "array_of_gsizes");
    const List kinds = list(call, ndims, distribs, "array_of_distribs");
    const List arguments = list(call, ndims, dargs, "array_of_dargs");
    const List grid = list(call, ndims, psizes, "array_of_psizes");
    std::vector<Distribution> distributions;
    for (const std::int64_t kind : kinds) distributions.push_back(static_cast<Distribution>(kind));
    return mpi_shim::datatype::darray(
        DistributedArray{size, rank, sizes, distributions, arguments, grid, static_cast<Order>(order)}, part);
  });
}

int by_fortran_kind(const char* function, Combiner combiner, int precision, int range, MPI_Datatype* newtype) {
  Call call{function};
  if (call.failed()) return call.error();
  call.pointer(newtype, "newtype");
  if (call.failed()) return call.error();
  const auto asked = [](int value) { return value == MPI_UNDEFINED ? std::nullopt : std::optional<int>{value}; };
  const auto found = mpi_shim::datatype::fortran_kind({combiner, asked(precision), asked(range)}, MPI_UNDEFINED);
  if (!found && found.error().code == Errc::no_memory) return call.fail(MPI_ERR_NO_MEM, "no memory for the datatype");
  if (!found) return call.fail(MPI_ERR_ARG, std::string{"there is no such kind of number: "} + found.error().where);
  *newtype = mpi_shim::handle::to_handle<MPI_Datatype>(**found);
  return MPI_SUCCESS;
}

}  // namespace

OPAL_MPI_FUNCTION(int, Type_contiguous, (int count, MPI_Datatype oldtype, MPI_Datatype* newtype)) {
  return contiguous("MPI_Type_contiguous", count, oldtype, newtype);
}
OPAL_MPI_FUNCTION(int, Type_contiguous_c, (MPI_Count count, MPI_Datatype oldtype, MPI_Datatype* newtype)) {
  return contiguous("MPI_Type_contiguous_c", count, oldtype, newtype);
}
OPAL_MPI_FUNCTION(int, Type_vector,
                  (int count, int blocklength, int stride, MPI_Datatype oldtype, MPI_Datatype* newtype)) {
  return vector("MPI_Type_vector", count, blocklength, stride, oldtype, newtype);
}
OPAL_MPI_FUNCTION(int, Type_vector_c,
                  (MPI_Count count, MPI_Count blocklength, MPI_Count stride, MPI_Datatype oldtype,
                   MPI_Datatype* newtype)) {
  return vector("MPI_Type_vector_c", count, blocklength, stride, oldtype, newtype);
}
OPAL_MPI_FUNCTION(int, Type_create_hvector,
                  (int count, int blocklength, MPI_Aint stride, MPI_Datatype oldtype, MPI_Datatype* newtype)) {
  return hvector("MPI_Type_create_hvector", count, blocklength, stride, oldtype, newtype);
}
OPAL_MPI_FUNCTION(int, Type_create_hvector_c,
                  (MPI_Count count, MPI_Count blocklength, MPI_Count stride, MPI_Datatype oldtype,
                   MPI_Datatype* newtype)) {
  return hvector("MPI_Type_create_hvector_c", count, blocklength, stride, oldtype, newtype);
}
OPAL_MPI_FUNCTION(int, Type_indexed,
                  (int count, const int lengths[], const int displacements[], MPI_Datatype oldtype,
                   MPI_Datatype* newtype)) {
  return indexed("MPI_Type_indexed", mpi_shim::datatype::indexed, count, lengths, displacements, oldtype, newtype);
}
OPAL_MPI_FUNCTION(int, Type_indexed_c,
                  (MPI_Count count, const MPI_Count lengths[], const MPI_Count displacements[], MPI_Datatype oldtype,
                   MPI_Datatype* newtype)) {
  return indexed("MPI_Type_indexed_c", mpi_shim::datatype::indexed, count, lengths, displacements, oldtype, newtype);
}
OPAL_MPI_FUNCTION(int, Type_create_hindexed,
                  (int count, const int lengths[], const MPI_Aint displacements[], MPI_Datatype oldtype,
                   MPI_Datatype* newtype)) {
  return indexed("MPI_Type_create_hindexed", mpi_shim::datatype::hindexed, count, lengths, displacements, oldtype,
                 newtype);
}
OPAL_MPI_FUNCTION(int, Type_create_hindexed_c,
                  (MPI_Count count, const MPI_Count lengths[], const MPI_Count displacements[], MPI_Datatype oldtype,
                   MPI_Datatype* newtype)) {
  return indexed("MPI_Type_create_hindexed_c", mpi_shim::datatype::hindexed, count, lengths, displacements, oldtype,
                 newtype);
}
OPAL_MPI_FUNCTION(int, Type_create_indexed_block,
                  (int count, int blocklength, const int displacements[], MPI_Datatype oldtype,
                   MPI_Datatype* newtype)) {
  return indexed_block("MPI_Type_create_indexed_block", mpi_shim::datatype::indexed_block, count, blocklength,
                       displacements, oldtype, newtype);
}
OPAL_MPI_FUNCTION(int, Type_create_indexed_block_c,
                  (MPI_Count count, MPI_Count blocklength, const MPI_Count displacements[], MPI_Datatype oldtype,
                   MPI_Datatype* newtype)) {
  return indexed_block("MPI_Type_create_indexed_block_c", mpi_shim::datatype::indexed_block, count, blocklength,
                       displacements, oldtype, newtype);
}
OPAL_MPI_FUNCTION(int, Type_create_hindexed_block,
                  (int count, int blocklength, const MPI_Aint displacements[], MPI_Datatype oldtype,
                   MPI_Datatype* newtype)) {
  return indexed_block("MPI_Type_create_hindexed_block", mpi_shim::datatype::hindexed_block, count, blocklength,
                       displacements, oldtype, newtype);
}
OPAL_MPI_FUNCTION(int, Type_create_hindexed_block_c,
                  (MPI_Count count, MPI_Count blocklength, const MPI_Count displacements[], MPI_Datatype oldtype,
                   MPI_Datatype* newtype)) {
  return indexed_block("MPI_Type_create_hindexed_block_c", mpi_shim::datatype::hindexed_block, count, blocklength,
                       displacements, oldtype, newtype);
}
OPAL_MPI_FUNCTION(int, Type_create_struct,
                  (int count, const int lengths[], const MPI_Aint displacements[], const MPI_Datatype types[],
                   MPI_Datatype* newtype)) {
  return structure("MPI_Type_create_struct", count, lengths, displacements, types, newtype);
}
OPAL_MPI_FUNCTION(int, Type_create_struct_c,
                  (MPI_Count count, const MPI_Count lengths[], const MPI_Count displacements[],
                   const MPI_Datatype types[], MPI_Datatype* newtype)) {
  return structure("MPI_Type_create_struct_c", count, lengths, displacements, types, newtype);
}
OPAL_MPI_FUNCTION(int, Type_create_resized,
                  (MPI_Datatype oldtype, MPI_Aint lb, MPI_Aint extent, MPI_Datatype* newtype)) {
  return resized("MPI_Type_create_resized", oldtype, lb, extent, newtype);
}
OPAL_MPI_FUNCTION(int, Type_create_resized_c,
                  (MPI_Datatype oldtype, MPI_Count lb, MPI_Count extent, MPI_Datatype* newtype)) {
  return resized("MPI_Type_create_resized_c", oldtype, lb, extent, newtype);
}
OPAL_MPI_FUNCTION(int, Type_create_subarray,
                  (int ndims, const int sizes[], const int subsizes[], const int starts[], int order,
                   MPI_Datatype oldtype, MPI_Datatype* newtype)) {
  return subarray("MPI_Type_create_subarray", ndims, sizes, subsizes, starts, order, oldtype, newtype);
}
OPAL_MPI_FUNCTION(int, Type_create_subarray_c,
                  (int ndims, const MPI_Count sizes[], const MPI_Count subsizes[], const MPI_Count starts[], int order,
                   MPI_Datatype oldtype, MPI_Datatype* newtype)) {
  return subarray("MPI_Type_create_subarray_c", ndims, sizes, subsizes, starts, order, oldtype, newtype);
}
OPAL_MPI_FUNCTION(int, Type_create_darray,
                  (int size, int rank, int ndims, const int gsizes[], const int distribs[], const int dargs[],
                   const int psizes[], int order, MPI_Datatype oldtype, MPI_Datatype* newtype)) {
  return darray("MPI_Type_create_darray", size, rank, ndims, gsizes, distribs, dargs, psizes, order, oldtype, newtype);
}
OPAL_MPI_FUNCTION(int, Type_create_darray_c,
                  (int size, int rank, int ndims, const MPI_Count gsizes[], const int distribs[], const int dargs[],
                   const int psizes[], int order, MPI_Datatype oldtype, MPI_Datatype* newtype)) {
  return darray("MPI_Type_create_darray_c", size, rank, ndims, gsizes, distribs, dargs, psizes, order, oldtype,
                newtype);
}
OPAL_MPI_FUNCTION(int, Type_create_f90_real, (int p, int r, MPI_Datatype* newtype)) {
  return by_fortran_kind("MPI_Type_create_f90_real", Combiner::f90_real, p, r, newtype);
}
OPAL_MPI_FUNCTION(int, Type_create_f90_complex, (int p, int r, MPI_Datatype* newtype)) {
  return by_fortran_kind("MPI_Type_create_f90_complex", Combiner::f90_complex, p, r, newtype);
}
OPAL_MPI_FUNCTION(int, Type_create_f90_integer, (int r, MPI_Datatype* newtype)) {
  return by_fortran_kind("MPI_Type_create_f90_integer", Combiner::f90_integer, MPI_UNDEFINED, r, newtype);
}
OPAL_MPI_FUNCTION(int, Type_dup, (MPI_Datatype oldtype, MPI_Datatype* newtype)) {
  const int error = construct("MPI_Type_dup", 0, oldtype, newtype,
                              [](Call&, Datatype& part) { return mpi_shim::datatype::dup(part); });
  if (error != MPI_SUCCESS) return error;
  Call call{"MPI_Type_dup"};
  auto& all = call.process().type_attributes();
  const auto* const attributes = all.find(oldtype);
  if (attributes == nullptr) return MPI_SUCCESS;
  const int refused = attributes->copy_to(oldtype, all.of(*newtype));
  if (refused == MPI_SUCCESS) return MPI_SUCCESS;
  all.of(*newtype).clear_all(*newtype);
  all.forget(*newtype);
  mpi_shim::handle::find<Datatype>(*newtype)->retire();
  *newtype = MPI_DATATYPE_NULL;  // as the standard asks
  return call.finish(refused);
}
