// SPDX-License-Identifier: Apache-2.0
// A rank of an MPI job: mpi_rank leave | segv | abort | exit | close | run.  In segv, abort and exit rank 1 ends like
// that between two barriers of all ranks; in close it closes all descriptors before MPI_Finalize; run does not end.
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A rank that ends without MPI_Finalize frees nothing; AddressSanitizer would change its exit status for that. */
const char* __asan_default_options(void);
const char* __asan_default_options(void) { return "detect_leaks=0"; }

int main(int argc, char** argv) {
  const char* const what = argc > 1 ? argv[1] : "leave";
  int rank = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int round = 0; strcmp(what, "leave") != 0; ++round) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (round == 10 && rank == 0) puts("up");
    if (round == 10) fflush(stdout);
    if (round == 10 && strcmp(what, "close") == 0) {
      if (rank == 1) close_range(3, ~0U, 0);
      break;
    }
    if (rank != 1 || round < 10) continue;
    if (strcmp(what, "segv") == 0) raise(SIGSEGV);
    if (strcmp(what, "abort") == 0) abort();
    if (strcmp(what, "exit") == 0) exit(3);
  }
  MPI_Finalize();
  return 0;
}
