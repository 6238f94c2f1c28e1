// SPDX-License-Identifier: Apache-2.0
// The Fortran entry points that are not generated, and the COMMON blocks whose addresses are constants.
#include <bit>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "mpi_shim/fortran/convert.hpp"

MPI_Fint mpi_fortran_bottom_;
MPI_Fint mpi_fortran_in_place_;
MPI_Fint mpi_fortran_buffer_automatic_;
MPI_Fint mpi_fortran_unweighted_;
MPI_Fint mpi_fortran_weights_empty_;
MPI_Fint mpi_fortran_status_ignore_[MPI_F_STATUS_SIZE];
MPI_Fint mpi_fortran_statuses_ignore_[MPI_F_STATUS_SIZE];

namespace mpi_shim::fortran {

int peers_of(MPI_Comm comm) {
  int inter = 0;
  int peers = 0;
  if (PMPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS) return 0;
  const int error = inter != 0 ? PMPI_Comm_remote_size(comm, &peers) : PMPI_Comm_size(comm, &peers);
  return error == MPI_SUCCESS ? peers : 0;
}

int neighbours_of(MPI_Comm comm, bool outward) {
  int topology = MPI_UNDEFINED;
  if (PMPI_Topo_test(comm, &topology) != MPI_SUCCESS) return 0;
  int in = 0;
  int out = 0;
  int weighted = 0;
  int rank = 0;
  int dimensions = 0;
  switch (topology) {
    case MPI_CART: PMPI_Cartdim_get(comm, &dimensions); return 2 * dimensions;
    case MPI_GRAPH:
      PMPI_Comm_rank(comm, &rank);
      PMPI_Graph_neighbors_count(comm, rank, &out);
      return out;
    case MPI_DIST_GRAPH: PMPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted); return outward ? out : in;
    default: return 0;
  }
}

namespace {

static_assert(std::endian::native == std::endian::little);  // an MPI_Fint is the first bytes of an MPI_Aint

/// All cells by address.  Never destroyed: exit handlers may delete attributes.
struct Cells {
  std::mutex mutex;
  std::unordered_map<void*, std::unique_ptr<MPI_Aint>> by_address;
};
Cells& cells() {
  static Cells& all = *new Cells;
  return all;
}

}  // namespace

void* new_cell(MPI_Aint value) {
  auto made = std::make_unique<MPI_Aint>(value);
  void* const address = made.get();
  const std::scoped_lock lock(cells().mutex);
  cells().by_address.emplace(address, std::move(made));
  return address;
}

MPI_Aint value_at(void* attribute) {
  const std::scoped_lock lock(cells().mutex);
  const auto found = cells().by_address.find(attribute);
  return found != cells().by_address.end() ? *found->second : reinterpret_cast<MPI_Aint>(attribute);
}

void free_cell(void* attribute) {
  const std::scoped_lock lock(cells().mutex);
  cells().by_address.erase(attribute);
}

namespace {

/// The attribute value for Fortran.  `given`: the value from C.  For predefined attributes, except MPI_WIN_BASE, it is
/// the address of the value.
MPI_Aint value_of(int keyval, void* given) {
  switch (keyval) {
    case MPI_TAG_UB:
    case MPI_IO:
    case MPI_HOST:
    case MPI_WTIME_IS_GLOBAL:
    case MPI_APPNUM:
    case MPI_LASTUSEDCODE:
    case MPI_UNIVERSE_SIZE:
    case MPI_WIN_DISP_UNIT:
    case MPI_WIN_CREATE_FLAVOR:
    case MPI_WIN_MODEL: return *static_cast<int*>(given);
    case MPI_WIN_SIZE: return *static_cast<MPI_Aint*>(given);
    default: return value_at(given);
  }
}

/// Calls get(&value in C) and stores the Fortran value if the attribute exists (*flag).  Returns an error code.
template <class Get, class Value>
int get_attribute(Get get, int keyval, Value* value, MPI_Fint* flag) {
  void* given = nullptr;
  const int error = get(&given);
  if (error == MPI_SUCCESS && *flag != 0) *value = static_cast<Value>(value_of(keyval, given));
  return error;
}

/// Calls set(a new cell).  Returns the error code.
template <class Set>
int set_attribute(Set set, MPI_Aint value) {
  void* const cell = new_cell(value);
  const int error = set(cell);
  if (error != MPI_SUCCESS) free_cell(cell);
  return error;
}

}  // namespace
}  // namespace mpi_shim::fortran

using namespace mpi_shim::fortran;

extern "C" {

OPAL_EXPORT void mpi_init_(MPI_Fint* ierror) { *ierror = MPI_Init(nullptr, nullptr); }
OPAL_EXPORT void mpi_init_thread_(const MPI_Fint* required, MPI_Fint* provided, MPI_Fint* ierror) {
  *ierror = MPI_Init_thread(nullptr, nullptr, *required, provided);
}
OPAL_EXPORT void mpi_pcontrol_(const MPI_Fint* level) { MPI_Pcontrol(*level); }

OPAL_EXPORT void mpi_info_create_env_(MPI_Fint* info, MPI_Fint* ierror) {
  *ierror = MPI_Info_create_env(0, nullptr, Out<MPI_Info>{info});
}

OPAL_EXPORT void mpi_info_get_(const MPI_Fint* info, char* key, const MPI_Fint* valuelen, char* value, MPI_Fint* flag,
                               MPI_Fint* ierror, std::size_t key_length, std::size_t value_length) {
  *flag = 0;
  std::vector<char> found(static_cast<std::size_t>(*valuelen < 0 ? 0 : *valuelen) + 1);
  *ierror = MPI_Info_get(handle<MPI_Info>(*info), InfoIn{key, key_length}, *valuelen, found.data(), flag);
  if (*flag != 0) std::strcpy(StringOut(value, value_length), found.data());
}

/// In C, `buflen` counts the terminating zero, as input and output; in Fortran it does not.
OPAL_EXPORT void mpi_info_get_string_(const MPI_Fint* info, char* key, MPI_Fint* buflen, char* value, MPI_Fint* flag,
                                      MPI_Fint* ierror, std::size_t key_length, std::size_t value_length) {
  *flag = 0;
  int room = *buflen > 0 ? *buflen + 1 : 0;
  std::vector<char> found(static_cast<std::size_t>(room) + 1);
  *ierror = MPI_Info_get_string(handle<MPI_Info>(*info), InfoIn{key, key_length}, &room, found.data(), flag);
  if (*flag == 0) return;
  if (*buflen > 0) std::strcpy(StringOut(value, value_length), found.data());
  *buflen = room - 1;
}

OPAL_EXPORT void mpi_type_get_contents_(const MPI_Fint* datatype, const MPI_Fint* max_integers,
                                        const MPI_Fint* max_addresses, const MPI_Fint* max_datatypes,
                                        MPI_Fint* integers, MPI_Aint* addresses, MPI_Fint* datatypes,
                                        MPI_Fint* ierror) {
  std::vector<MPI_Datatype> handles(static_cast<std::size_t>(*max_datatypes < 0 ? 0 : *max_datatypes), nullptr);
  *ierror = MPI_Type_get_contents(handle<MPI_Datatype>(*datatype), *max_integers, *max_addresses, *max_datatypes,
                                  integers, addresses, handles.data());
  for (std::size_t i = 0; i < handles.size(); ++i) {
    if (handles[i] != nullptr) datatypes[i] = to_integer(handles[i]);
  }
}

/// `Value`: the type of attribute values; a default integer in the functions of MPI-1.
#define OPAL_MPI_FORTRAN_ATTRIBUTES(get_name, set_name, Name, type, Value)                                            \
  OPAL_EXPORT void mpi_##get_name##_(const MPI_Fint* object, const MPI_Fint* keyval, Value* value, MPI_Fint* flag,    \
                                     MPI_Fint* ierror) {                                                              \
    const auto get = [&](void* given) { return MPI_##Name##_get_attr(handle<type>(*object), *keyval, given, flag); }; \
    *ierror = get_attribute(get, *keyval, value, flag);                                                               \
  }                                                                                                                   \
  OPAL_EXPORT void mpi_##set_name##_(const MPI_Fint* object, const MPI_Fint* keyval, const Value* value,              \
                                     MPI_Fint* ierror) {                                                              \
    const auto set = [&](void* cell) { return MPI_##Name##_set_attr(handle<type>(*object), *keyval, cell); };         \
    *ierror = set_attribute(set, *value);                                                                             \
  }
OPAL_MPI_FORTRAN_ATTRIBUTES(comm_get_attr, comm_set_attr, Comm, MPI_Comm, MPI_Aint)
OPAL_MPI_FORTRAN_ATTRIBUTES(type_get_attr, type_set_attr, Type, MPI_Datatype, MPI_Aint)
OPAL_MPI_FORTRAN_ATTRIBUTES(win_get_attr, win_set_attr, Win, MPI_Win, MPI_Aint)
OPAL_MPI_FORTRAN_ATTRIBUTES(attr_get, attr_put, Comm, MPI_Comm, MPI_Fint)

// Functions of MPI-1, for older applications: values and addresses are default integers.

OPAL_EXPORT void mpi_errhandler_set_(const MPI_Fint* comm, const MPI_Fint* errhandler, MPI_Fint* ierror) {
  *ierror = MPI_Comm_set_errhandler(handle<MPI_Comm>(*comm), handle<MPI_Errhandler>(*errhandler));
}
OPAL_EXPORT void mpi_errhandler_get_(const MPI_Fint* comm, MPI_Fint* errhandler, MPI_Fint* ierror) {
  *ierror = MPI_Comm_get_errhandler(handle<MPI_Comm>(*comm), Out<MPI_Errhandler>{errhandler});
}
#define OPAL_MPI_FORTRAN_BOUND(name, value)                                                          \
  OPAL_EXPORT void mpi_type_##name##_(const MPI_Fint* datatype, MPI_Fint* bound, MPI_Fint* ierror) { \
    MPI_Aint lower = 0;                                                                              \
    MPI_Aint whole = 0;                                                                              \
    *ierror = MPI_Type_get_extent(handle<MPI_Datatype>(*datatype), &lower, &whole);                  \
    *bound = static_cast<MPI_Fint>(value);                                                           \
  }
OPAL_MPI_FORTRAN_BOUND(extent, whole)
OPAL_MPI_FORTRAN_BOUND(lb, lower)
OPAL_MPI_FORTRAN_BOUND(ub, lower + whole)

OPAL_EXPORT void mpi_type_hindexed_(const MPI_Fint* count, const MPI_Fint* blocklengths, const MPI_Fint* displacements,
                                    const MPI_Fint* oldtype, MPI_Fint* newtype, MPI_Fint* ierror) {
  const std::vector<MPI_Aint> wide(displacements, displacements + (*count < 0 ? 0 : *count));
  *ierror = MPI_Type_create_hindexed(*count, blocklengths, wide.data(), handle<MPI_Datatype>(*oldtype),
                                     Out<MPI_Datatype>{newtype});
}
OPAL_EXPORT void mpi_type_hvector_(const MPI_Fint* count, const MPI_Fint* blocklength, const MPI_Fint* stride,
                                   const MPI_Fint* oldtype, MPI_Fint* newtype, MPI_Fint* ierror) {
  *ierror = MPI_Type_create_hvector(*count, *blocklength, *stride, handle<MPI_Datatype>(*oldtype),
                                    Out<MPI_Datatype>{newtype});
}
OPAL_EXPORT void mpi_type_struct_(const MPI_Fint* count, const MPI_Fint* blocklengths, const MPI_Fint* displacements,
                                  const MPI_Fint* types, MPI_Fint* newtype, MPI_Fint* ierror) {
  const std::vector<MPI_Aint> wide(displacements, displacements + (*count < 0 ? 0 : *count));
  *ierror = MPI_Type_create_struct(*count, blocklengths, wide.data(), InArray<MPI_Datatype>{types, *count},
                                   Out<MPI_Datatype>{newtype});
}

}  // extern "C"
