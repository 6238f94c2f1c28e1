/* SPDX-License-Identifier: Apache-2.0
 * A message of more than 2^31 bytes.  Its sender repeats one page, so that the test needs the memory only once. */
#include <string.h>
#include <sys/mman.h>

#include "tests/mpi_shim/programs/check.h"

int main(int argc, char** argv) {
  enum { page = 1 << 20, pages = 2049 };
  const MPI_Count total = (MPI_Count)page * pages;
  MPI_Init(&argc, &argv);
  if (my_rank() == 0) {
    static unsigned char source[page];
    for (int i = 0; i < page; ++i) source[i] = pattern(i, 5);
    MPI_Datatype repeated;
    MPI_Type_create_hvector(pages, page, 0, MPI_BYTE, &repeated);
    MPI_Type_commit(&repeated);
    MPI_Send_c(source, 1, repeated, 1, 0, MPI_COMM_WORLD);
    MPI_Type_free(&repeated);
  } else if (my_rank() == 1) {
    unsigned char* target =
        mmap(NULL, (size_t)total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(target != MAP_FAILED);
    MPI_Status status;
    MPI_Recv_c(target, total, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &status);
    MPI_Count count = -1;
    int small_count = -1;
    MPI_Get_count_c(&status, MPI_BYTE, &count);
    CHECK_EQ(count, total);
    MPI_Get_count(&status, MPI_BYTE, &small_count);
    CHECK_EQ(small_count, MPI_UNDEFINED);
    for (int i = 0; i < pages; ++i) {
      const unsigned char* start = target + (size_t)page * (size_t)i;
      CHECK(start[0] == pattern(0, 5) && start[page / 2 + 1] == pattern(page / 2 + 1, 5));
      CHECK(start[page - 1] == pattern(page - 1, 5));
    }
    munmap(target, (size_t)total);
  }
  MPI_Finalize();
  return 0;
}
