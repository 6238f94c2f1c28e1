/* SPDX-License-Identifier: Apache-2.0
 * Which MPI functions a process called and what they returned: written when it ends, a line "NAME CLASS" for each pair,
 * into a file of its own in the directory that $MPI_CALLS_DIRECTORY names, if it is set. */
#ifndef OPAL_TESTS_MPI_CALLS_RECORD_H
#define OPAL_TESTS_MPI_CALLS_RECORD_H

#include <mpi.h>

extern const char* const calls_names[];
extern const int calls_count;

/* Thread-safe.  Returns `error`. */
int calls_record(int function, int error);
void calls_write(void);

#endif
