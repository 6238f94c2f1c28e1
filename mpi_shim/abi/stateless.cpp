// SPDX-License-Identifier: Apache-2.0
// The MPI functions that need no library state and may be called before MPI_Init: versions, clocks, address arithmetic,
// the public members of a status.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string_view>

#include "mpi_shim/abi/function.hpp"

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kLibraryVersion = "OPAL " OPAL_VERSION ", MPI 5.0, standard ABI 1.0";
static_assert(kLibraryVersion.size() < MPI_MAX_LIBRARY_VERSION_STRING);

// Address arithmetic (MPI_Aint_add, _diff) on unsigned integers, whose overflow is defined.
MPI_Aint wrap(std::uintptr_t bits) { return static_cast<MPI_Aint>(bits); }
std::uintptr_t bits(MPI_Aint address) { return static_cast<std::uintptr_t>(address); }

}  // namespace

OPAL_MPI_FUNCTION(int, Get_version, (int* version, int* subversion)) {
  *version = MPI_VERSION;
  *subversion = MPI_SUBVERSION;
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Get_library_version, (char* version, int* resultlen)) {
  *std::copy(kLibraryVersion.begin(), kLibraryVersion.end(), version) = '\0';
  *resultlen = static_cast<int>(kLibraryVersion.size());
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Abi_get_version, (int* abi_major, int* abi_minor)) {
  *abi_major = MPI_ABI_VERSION;
  *abi_minor = MPI_ABI_SUBVERSION;
  return MPI_SUCCESS;
}

// Profiling libraries define their own MPI_Pcontrol; the library itself ignores the call.
OPAL_MPI_FUNCTION(int, Pcontrol, (const int /*level*/, ...)) { return MPI_SUCCESS; }

OPAL_MPI_FUNCTION(double, Wtime, (void)) {
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

OPAL_MPI_FUNCTION(double, Wtick, (void)) { return std::chrono::duration<double>(Clock::duration(1)).count(); }

OPAL_MPI_FUNCTION(MPI_Aint, Aint_add, (MPI_Aint base, MPI_Aint disp)) { return wrap(bits(base) + bits(disp)); }
OPAL_MPI_FUNCTION(MPI_Aint, Aint_diff, (MPI_Aint addr1, MPI_Aint addr2)) { return wrap(bits(addr1) - bits(addr2)); }

OPAL_MPI_FUNCTION(int, Get_address, (const void* location, MPI_Aint* address)) {
  *address = reinterpret_cast<MPI_Aint>(location);
  return MPI_SUCCESS;
}

#define OPAL_MPI_STATUS_MEMBER(name, member)                                          \
  OPAL_MPI_FUNCTION(int, Status_get_##name, (const MPI_Status* status, int* value)) { \
    *value = status->member;                                                          \
    return MPI_SUCCESS;                                                               \
  }                                                                                   \
  OPAL_MPI_FUNCTION(int, Status_set_##name, (MPI_Status * status, int value)) {       \
    status->member = value;                                                           \
    return MPI_SUCCESS;                                                               \
  }
OPAL_MPI_STATUS_MEMBER(source, MPI_SOURCE)
OPAL_MPI_STATUS_MEMBER(tag, MPI_TAG)
OPAL_MPI_STATUS_MEMBER(error, MPI_ERROR)
