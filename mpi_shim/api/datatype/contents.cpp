// SPDX-License-Identifier: Apache-2.0
// MPI_Type_get_envelope and _get_contents; MPI_Type_match_size and MPI_Type_get_value_index.
#include <algorithm>
#include <vector>

#include "mpi_shim/api/forward.hpp"

namespace mpi_shim::api {
namespace {

/// The arguments of a constructor in the lists that MPI_Type_get_contents and _get_contents_c return.
struct Contents {
  std::vector<std::int64_t> integers;
  std::vector<std::int64_t> addresses;
  std::vector<std::int64_t> large_counts;

  explicit Contents(const datatype::Recipe& recipe) : integers(recipe.integers), addresses(recipe.addresses) {
    if (!recipe.large_counts) return;
    // A _c constructor made the recipe: its MPI_Count arguments are the large counts, its int arguments stay integers.
    // It has no addresses.
    std::vector<std::int64_t> all = std::move(integers);
    integers.clear();
    switch (recipe.combiner) {
      case datatype::Combiner::subarray: {  // ndims | sizes, subsizes, starts | order
        integers = {all.front(), all.back()};
        large_counts.assign(all.begin() + 1, all.end() - 1);
        break;
      }
      case datatype::Combiner::darray: {  // size, rank, ndims | gsizes | distribs, dargs, psizes, order
        const auto sizes = all.begin() + 3;
        integers.assign(all.begin(), sizes);
        large_counts.assign(sizes, sizes + all[2]);
        integers.insert(integers.end(), sizes + all[2], all.end());
        break;
      }
      default:
        large_counts = std::move(all);
        large_counts.insert(large_counts.end(), addresses.begin(), addresses.end());
        addresses.clear();
    }
  }
};

/// Both forms of MPI_Type_get_envelope.  The form without _c: Count is int, and `large_counts` is null.
template <class Count>
int envelope(Call& call, MPI_Datatype datatype, Count* integers, Count* addresses, Count* large_counts, Count* types,
             int* combiner) {
  const datatype::Datatype* const type = call.any_type(datatype);
  const datatype::Recipe& recipe = type->recipe();
  const Contents contents{recipe};
  if (large_counts == nullptr && !contents.large_counts.empty()) {
    call.fail(MPI_ERR_TYPE, "the datatype has large counts, which only MPI_Type_get_envelope_c returns");
  }
  *integers = static_cast<Count>(contents.integers.size());
  *addresses = static_cast<Count>(contents.addresses.size());
  if (large_counts != nullptr) *large_counts = static_cast<Count>(contents.large_counts.size());
  *types = static_cast<Count>(recipe.types.size());
  *combiner = static_cast<int>(recipe.combiner);
  return MPI_SUCCESS;
}

/// Returns a handle for `part`, an argument of the constructor.  A derived datatype is copied, since the application
/// may have freed its handle; the application frees the new handle.  A predefined datatype, and one of
/// MPI_Type_create_f90_*, keeps its handle.
MPI_Datatype handle_of(Call& call, datatype::Datatype& part) {
  if (part.predefined_handle() != 0) return handle::to_handle<MPI_Datatype>(part);
  auto made = part.copy();
  if (!made) call.fail_class(MPI_ERR_NO_MEM);
  return handle::to_handle<MPI_Datatype>(*made->detach());  // the application's reference
}

/// Both forms of MPI_Type_get_contents.  The form without _c has no room for large counts: a datatype that has some is
/// an error.
template <class Count>
int contents(Call& call, MPI_Datatype datatype, Count max_integers, Count max_addresses, Count max_large_counts,
             Count max_types, int* integers, MPI_Aint* addresses, MPI_Count* large_counts, MPI_Datatype* types) {
  const datatype::Datatype* const type = call.any_type(datatype);
  const datatype::Recipe& recipe = type->recipe();
  if (recipe.combiner == datatype::Combiner::named) call.fail(MPI_ERR_TYPE, "a predefined datatype has no contents");
  const Contents found{recipe};
  if (sizeof(Count) == sizeof(int) && !found.large_counts.empty()) {
    call.fail(MPI_ERR_TYPE, "the datatype has large counts, which only MPI_Type_get_contents_c returns");
  }
  const auto fits = [&](std::size_t count, Count room) { return static_cast<std::int64_t>(count) <= room; };
  if (!fits(found.integers.size(), max_integers) || !fits(found.addresses.size(), max_addresses) ||
      !fits(found.large_counts.size(), max_large_counts) || !fits(recipe.types.size(), max_types)) {
    call.fail(MPI_ERR_ARG, "one of the arrays is smaller than MPI_Type_get_envelope says");
  }
  std::transform(found.integers.begin(), found.integers.end(), integers,
                 [](std::int64_t value) { return static_cast<int>(value); });
  std::copy(found.addresses.begin(), found.addresses.end(), addresses);
  for (std::size_t i = 0; i < found.large_counts.size(); ++i) large_counts[i] = found.large_counts[i];
  for (const datatype::DatatypeRef& part : recipe.types) *types++ = handle_of(call, *part);
  return MPI_SUCCESS;
}

}  // namespace

OPAL_MPI_CALL(Type_get_envelope, (Call & call, MPI_Datatype datatype, int* num_integers, int* num_addresses,
                                  int* num_datatypes, int* combiner)) {
  return envelope<int>(call, datatype, num_integers, num_addresses, nullptr, num_datatypes, combiner);
}
OPAL_MPI_FORWARD(Type_get_envelope_c, envelope)

OPAL_MPI_CALL(Type_get_contents,
              (Call & call, MPI_Datatype datatype, int max_integers, int max_addresses, int max_datatypes,
               int array_of_integers[], MPI_Aint array_of_addresses[], MPI_Datatype array_of_datatypes[])) {
  return contents(call, datatype, max_integers, max_addresses, 0, max_datatypes, array_of_integers, array_of_addresses,
                  nullptr, array_of_datatypes);
}
OPAL_MPI_FORWARD(Type_get_contents_c, contents)

OPAL_MPI_CALL(Type_get_value_index,
              (Call & call, MPI_Datatype value_type, MPI_Datatype index_type, MPI_Datatype* pair_type)) {
  call.any_type(value_type, "value_type");
  call.any_type(index_type, "index_type");
  *pair_type = MPI_DATATYPE_NULL;  // the standard's result if there is no such pair
  if (index_type != MPI_INT) return MPI_SUCCESS;
  if (value_type == MPI_FLOAT) *pair_type = MPI_FLOAT_INT;
  if (value_type == MPI_DOUBLE) *pair_type = MPI_DOUBLE_INT;
  if (value_type == MPI_LONG) *pair_type = MPI_LONG_INT;
  if (value_type == MPI_INT) *pair_type = MPI_2INT;
  if (value_type == MPI_SHORT) *pair_type = MPI_SHORT_INT;
  if (value_type == MPI_LONG_DOUBLE) *pair_type = MPI_LONG_DOUBLE_INT;
  return MPI_SUCCESS;
}

OPAL_MPI_CALL(Type_match_size, (Call & call, int typeclass, int size, MPI_Datatype* datatype)) {
  const auto match = [&](std::initializer_list<MPI_Datatype> candidates) {
    for (const MPI_Datatype candidate : candidates) {
      const auto* const type = handle::find<datatype::Datatype>(candidate);
      if (type != nullptr && type->size() == size) {
        *datatype = candidate;
        return MPI_SUCCESS;
      }
    }
    call.fail(MPI_ERR_ARG, "no type of the class has argument size");
  };
  switch (typeclass) {
    case MPI_TYPECLASS_REAL: return match({MPI_REAL2, MPI_REAL4, MPI_REAL8, MPI_REAL16});
    case MPI_TYPECLASS_INTEGER: return match({MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4, MPI_INTEGER8, MPI_INTEGER16});
    case MPI_TYPECLASS_COMPLEX: return match({MPI_COMPLEX4, MPI_COMPLEX8, MPI_COMPLEX16, MPI_COMPLEX32});
    default: call.fail(MPI_ERR_ARG, "argument typeclass is none of MPI_TYPECLASS_*");
  }
}

}  // namespace mpi_shim::api
