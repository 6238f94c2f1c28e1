/* SPDX-License-Identifier: Apache-2.0 */
/* What MPI says before MPI_Init. */
#include <mpi.h>
#include <stdio.h>

int main(void) {
  char library[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0, version = 0, subversion = 0;
  if (MPI_Get_library_version(library, &length) != MPI_SUCCESS) return 1;
  if (MPI_Get_version(&version, &subversion) != MPI_SUCCESS) return 1;
  printf("mpi_user: MPI %d.%d by %s\n", version, subversion, library);
  return version < 5;
}
