// SPDX-License-Identifier: Apache-2.0
// The standard's table seen by a C11 compiler: integers and types while compiling, addresses when called.
#include <mpi.h>
#include <stddef.h>

#define ABI_INT(name, value)                \
  _Static_assert((name) == (value), #name); \
  _Static_assert(_Generic((name), int : 1), #name);
#define ABI_ENUM(type, name, value) _Static_assert((name) == (value), #name);
#define ABI_OFFSET(name, value)             \
  _Static_assert((name) == (value), #name); \
  _Static_assert(_Generic((name), MPI_Offset : 1), #name);
#define ABI_ADDRESS(type, name, value) _Static_assert(_Generic((name), type : 1), #name);
#include "tests/mpi_shim/abi_table.inc"
#undef ABI_ADDRESS
#undef ABI_OFFSET
#undef ABI_ENUM
#undef ABI_INT

_Static_assert(sizeof(MPI_Status) == 32 && offsetof(MPI_Status, MPI_SOURCE) == 0 &&
                   offsetof(MPI_Status, MPI_TAG) == 4 && offsetof(MPI_Status, MPI_ERROR) == 8 &&
                   offsetof(MPI_Status, MPI_internal) == 12,
               "the status of the standard ABI");
_Static_assert(sizeof(MPI_T_cb_safety) == sizeof(int) && sizeof(MPI_T_source_order) == sizeof(int), "passed as int");

// Integer constants may stand in #if.
#if MPI_VERSION != 5 || MPI_THREAD_MULTIPLE <= MPI_THREAD_SERIALIZED || !defined(MPI_ERR_ABI)
#error "integer constants are seen by the preprocessor"
#endif

const char* abi_first_wrong_address_in_c(void);

/// The first name whose address is not the table's, null when all are right.
const char* abi_first_wrong_address_in_c(void) {
#define ABI_INT(name, value)
#define ABI_ENUM(type, name, value)
#define ABI_OFFSET(name, value)
#define ABI_ADDRESS(type, name, value) \
  if ((intptr_t)(name) != (value)) return #name;
#include "tests/mpi_shim/abi_table.inc"
  return NULL;
}
