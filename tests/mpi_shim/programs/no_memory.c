/* SPDX-License-Identifier: Apache-2.0
 * A window for whose handle one rank has no memory is an error of all ranks, and leaves no communicator behind. */
#include <sys/resource.h>
#include <unistd.h>

#include "tests/mpi_shim/programs/check.h"

enum { most_handles = 1 << 18, failures = 300 };

/* The library reserves address space for handles when it makes the first one: as much as the limit allows. */
static void reserve_few_handles(void) {
  long pages = 0;
  FILE* const sizes = fopen("/proc/self/statm", "r");
  if (fscanf(sizes, "%ld", &pages) != 1) exit(1);
  fclose(sizes);
  struct rlimit before, low;
  getrlimit(RLIMIT_AS, &before);
  low = before;
  low.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + (24 << 20);
  setrlimit(RLIMIT_AS, &low);
  MPI_Info first;
  MPI_Info_create(&first);
  MPI_Info_free(&first);
  setrlimit(RLIMIT_AS, &before);
}

int main(int argc, char** argv) {
  static MPI_Info infos[most_handles];
  MPI_Comm comm;
  reserve_few_handles();
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  for (int i = 0; i < 4; ++i) { /* handles of communicators that can be used again */
    CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &comm) == MPI_SUCCESS);
    CHECK(MPI_Comm_free(&comm) == MPI_SUCCESS);
  }
  int made = 0;
  while (my_rank() == 0 && made < most_handles && MPI_Info_create(&infos[made]) == MPI_SUCCESS) ++made;
  CHECK(made < most_handles);
  for (int i = 0; i < failures; ++i) {
    MPI_Win window;
    CHECK_EQ(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window), MPI_ERR_NO_MEM);
  }
  CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &comm) == MPI_SUCCESS);
  CHECK(MPI_Comm_free(&comm) == MPI_SUCCESS);
  while (made > 0) MPI_Info_free(&infos[--made]);
  MPI_Finalize();
  return 0;
}
