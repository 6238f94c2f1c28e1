/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/mpi_shim/calls/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { kFunctions = 1024, kClasses = 64 }; /* error codes of the program's own are not told apart: the last class */
static unsigned char seen[kFunctions][kClasses];

int calls_record(int function, int error) {
  const int class_or_last = error >= 0 && error < kClasses - 1 ? error : kClasses - 1;
  __atomic_store_n(&seen[function][class_or_last], 1, __ATOMIC_RELAXED);
  return error;
}

void calls_write(void) {
  const char* const directory = getenv("MPI_CALLS_DIRECTORY");
  char path[4096];
  if (directory == NULL || snprintf(path, sizeof path, "%s/%d", directory, (int)getpid()) >= (int)sizeof path) return;
  FILE* const file = fopen(path, "a");
  if (file == NULL) return;
  for (int f = 0; f < calls_count; ++f) {
    for (int c = 0; c < kClasses; ++c) {
      if (__atomic_load_n(&seen[f][c], __ATOMIC_RELAXED)) fprintf(file, "%s %d\n", calls_names[f], c);
    }
  }
  fclose(file);
}

__attribute__((destructor)) static void write_at_exit(void) { calls_write(); }
