/* SPDX-License-Identifier: Apache-2.0
 * One source for both forms of the functions that count: a program compiled with LARGE_COUNTS calls the _c forms. */
#ifndef OPAL_TESTS_MPI_COUNTS_H
#define OPAL_TESTS_MPI_COUNTS_H

#include <mpi.h>

#ifdef LARGE_COUNTS
#define COUNTED(name) MPI_##name##_c
typedef MPI_Count Count;
typedef MPI_Aint BlockPlace; /* where a collective finds or puts a block */
typedef MPI_Count TypePlace; /* a displacement in units of the old type, or a position in packed bytes */
typedef MPI_Count BytePlace; /* a displacement or a size in bytes */
typedef MPI_Aint WindowUnit;
typedef MPI_User_function_c UserFunction;
#else
#define COUNTED(name) MPI_##name
typedef int Count;
typedef int BlockPlace;
typedef int TypePlace;
typedef MPI_Aint BytePlace;
typedef int WindowUnit;
typedef MPI_User_function UserFunction;
#endif

#endif
