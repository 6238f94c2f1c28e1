/* SPDX-License-Identifier: Apache-2.0
 * What C finds of what Fortran has set or passes: attributes, ignored statuses.  Called by fortran_module.f90. */
#include <mpi.h>
#include <stddef.h>

void c_get_attr_(MPI_Fint* comm, MPI_Fint* keyval, MPI_Aint* value) {
  MPI_Aint* found = NULL;
  int flag = 0;
  MPI_Comm_get_attr(MPI_Comm_f2c(*comm), *keyval, &found, &flag);
  *value = flag ? *found : -1;
}
/* The value was set by MPI_ATTR_PUT, so it is a default integer. */
void c_attr_get_(MPI_Fint* comm, MPI_Fint* keyval, MPI_Fint* value) {
  MPI_Fint* found = NULL;
  int flag = 0;
  MPI_Comm_get_attr(MPI_Comm_f2c(*comm), *keyval, &found, &flag);
  *value = flag ? *found : -1;
}
void c_set_attr_(MPI_Fint* comm, MPI_Fint* keyval, MPI_Aint* variable) {
  MPI_Comm_set_attr(MPI_Comm_f2c(*comm), *keyval, variable);
}
/* A key of C, whose attributes are copied with MPI_COMM_DUP_FN. */
void c_create_keyval_(MPI_Fint* keyval) {
  MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, keyval, NULL);
}
/* 1 and 2 for the special values, 0 for a status. */
MPI_Fint c_ignored_(MPI_Fint* status) {
  return status == MPI_F_STATUS_IGNORE ? 1 : status == MPI_F_STATUSES_IGNORE ? 2 : 0;
}
