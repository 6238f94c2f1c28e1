/* SPDX-License-Identifier: Apache-2.0
 * A rank is killed: receives from it that are posted, or will be, end with an error, and so do collectives that it does
 * not come to, in shared memory or by messages; receives from others do not.
 * The launcher ends the job, so that the others have to outlive its SIGTERM to see it. */
#include <signal.h>
#include <unistd.h>

#include "tests/mpi_shim/calls/record.h"
#include "tests/mpi_shim/programs/check.h"

int main(int argc, char** argv) {
  signal(SIGTERM, SIG_IGN);
  MPI_Init(&argc, &argv);
  const int rank = my_rank();
  CHECK(world_size() == 3);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int lost = -1, found = -1;
  MPI_Request from_dead, from_living, from_any;
  MPI_Win window;
  MPI_Win_create(&lost, sizeof lost, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
  if (rank == 0) {
    MPI_Irecv(&found, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &from_any);
    MPI_Group world, dying;
    const int one = 1;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &one, &dying);
    MPI_Win_post(dying, 0, window);
    MPI_Irecv(&lost, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &from_dead);
    MPI_Irecv(&found, 1, MPI_INT, 2, 1, MPI_COMM_WORLD, &from_living);
  }
  for (int i = 0; i < 20; ++i) MPI_Barrier(MPI_COMM_WORLD); /* from some on in shared memory */
  if (rank == 1) raise(SIGKILL);
  if (rank == 0) {
    int error_class, word = 1;
    MPI_Error_class(MPI_Wait(&from_dead, MPI_STATUS_IGNORE), &error_class);
    CHECK_EQ(error_class, MPI_ERR_PROC_ABORTED);
    MPI_Error_class(MPI_Recv(&lost, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE), &error_class);
    CHECK_EQ(error_class, MPI_ERR_PROC_ABORTED);
    MPI_Error_class(MPI_Wait(&from_any, MPI_STATUS_IGNORE), &error_class); /* it could have been the dead one's */
    CHECK_EQ(error_class, MPI_ERR_PROC_ABORTED);
    MPI_Error_class(MPI_Probe(1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE), &error_class);
    CHECK_EQ(error_class, MPI_ERR_PROC_ABORTED);
    MPI_Error_class(MPI_Win_wait(window), &error_class);
    CHECK_EQ(error_class, MPI_ERR_PROC_ABORTED);
    MPI_Send(&word, 1, MPI_INT, 2, 1, MPI_COMM_WORLD);
    CHECK(MPI_Wait(&from_living, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    CHECK_EQ(found, 7);
  } else {
    int word = 0;
    MPI_Recv(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    word = 7;
    MPI_Send(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
  }
  for (int i = 0; i < 2; ++i) {
    int sum, error_class;
    MPI_Error_class(
        i == 0 ? MPI_Barrier(MPI_COMM_WORLD) : MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD),
        &error_class);
    CHECK_EQ(error_class, MPI_ERR_PROC_ABORTED);
  }
  if (rank == 0) printf("what waits for the dead rank has ended\n");
  fflush(stdout);
  calls_write(); /* of its own accord only exit() does */
  _exit(0);      /* MPI_Finalize would wait for the dead */
}
