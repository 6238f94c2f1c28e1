// SPDX-License-Identifier: Apache-2.0
// The functions that make datatypes out of others.
#include <optional>
#include <string_view>
#include <vector>

#include "mpi_shim/abi/forward.hpp"
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
  if (count < 0) call.fail_count(count);
  Datatype* const part = call.any_type(oldtype, "oldtype");
  call.pointer(newtype, "newtype");
  if (call.failed()) return call.error();
  Result<DatatypeRef> made = make(call, *part);
  return call.failed() ? call.error() : hand_out(call, function, std::move(made), newtype);
}

int contiguous(const char* function, MPI_Count count, MPI_Datatype oldtype, MPI_Datatype* newtype) {
  return construct(function, count, oldtype, newtype,
                   [&](Call&, Datatype& part) { return mpi_shim::datatype::contiguous(count, part); });
}

int vector(const char* function, MPI_Count count, MPI_Count length, MPI_Count stride, MPI_Datatype oldtype,
           MPI_Datatype* newtype) {
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
int indexed(const char* function, MPI_Count count, const Count* lengths, const Displacement* displacements,
            MPI_Datatype oldtype, MPI_Datatype* newtype, Indexed make) {
  return construct(function, count, oldtype, newtype, [&](Call& call, Datatype& part) -> Result<DatatypeRef> {
    const List blocks = list(call, count, lengths, "array_of_blocklengths");
    const List places = list(call, count, displacements, "array_of_displacements");
    return make(blocks, places, part);
  });
}

using IndexedBlock = Result<DatatypeRef> (*)(std::int64_t, mpi_shim::datatype::Counts, Datatype&);

template <class Displacement>
int indexed_block(const char* function, MPI_Count count, MPI_Count length, const Displacement* displacements,
                  MPI_Datatype oldtype, MPI_Datatype* newtype, IndexedBlock make) {
  return construct(function, count, oldtype, newtype, [&](Call& call, Datatype& part) {
    return make(length, list(call, count, displacements, "array_of_displacements"), part);
  });
}

template <class Count, class Displacement>
int structure(const char* function, MPI_Count count, const Count* lengths, const Displacement* displacements,
              const MPI_Datatype* types, MPI_Datatype* newtype) {
  Call call{function};
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

int by_fortran_kind(const char* function, int precision, int range, MPI_Datatype* newtype, Combiner combiner) {
  Call call{function};
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

OPAL_MPI_FORWARD_BOTH(Type_contiguous, contiguous)
OPAL_MPI_FORWARD_BOTH(Type_vector, vector)
OPAL_MPI_FORWARD_BOTH(Type_create_hvector, hvector)
OPAL_MPI_FORWARD_BOTH(Type_indexed, indexed, mpi_shim::datatype::indexed)
OPAL_MPI_FORWARD_BOTH(Type_create_hindexed, indexed, mpi_shim::datatype::hindexed)
OPAL_MPI_FORWARD_BOTH(Type_create_indexed_block, indexed_block, mpi_shim::datatype::indexed_block)
OPAL_MPI_FORWARD_BOTH(Type_create_hindexed_block, indexed_block, mpi_shim::datatype::hindexed_block)
OPAL_MPI_FORWARD_BOTH(Type_create_struct, structure)
OPAL_MPI_FORWARD_BOTH(Type_create_resized, resized)
OPAL_MPI_FORWARD_BOTH(Type_create_subarray, subarray)
OPAL_MPI_FORWARD_BOTH(Type_create_darray, darray)
OPAL_MPI_FORWARD(Type_create_f90_real, by_fortran_kind, Combiner::f90_real)
OPAL_MPI_FORWARD(Type_create_f90_complex, by_fortran_kind, Combiner::f90_complex)
OPAL_MPI_FUNCTION(int, Type_create_f90_integer, (int r, MPI_Datatype* newtype)) {
  return by_fortran_kind("MPI_Type_create_f90_integer", MPI_UNDEFINED, r, newtype, Combiner::f90_integer);
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
