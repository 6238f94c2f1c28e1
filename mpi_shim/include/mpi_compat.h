/* SPDX-License-Identifier: Apache-2.0
 *
 * mpi_compat.h: names that applications use but the MPI standard ABI omits, as inline functions over the ABI.
 *
 *   - MPI_Fint and the conversions to and from Fortran handles and statuses (omitted since the Fortran compiler
 *     decides the size of an INTEGER; here it is a C int);
 *   - the functions that MPI 3.0 removed and old applications still call.
 *
 * mpi.h includes this file, except under a C standard before C99.  An application with its own definitions compiles
 * with -DOPAL_MPI_NO_COMPAT.  MPI_UB and MPI_LB are not defined, since the ABI has no handles for them.
 */
#ifndef OPAL_MPI_COMPAT_H
#define OPAL_MPI_COMPAT_H

#include "mpi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Fortran ---------------------------------------------------------------------------------------------------- */

typedef int MPI_Fint;

#define MPI_ABI_FORTRAN_HANDLE_(type, name)                                                   \
  static inline MPI_Fint MPI_##name##_c2f(type handle) { return MPI_##name##_toint(handle); } \
  static inline type MPI_##name##_f2c(MPI_Fint handle) { return MPI_##name##_fromint(handle); }

MPI_ABI_FORTRAN_HANDLE_(MPI_Comm, Comm)
MPI_ABI_FORTRAN_HANDLE_(MPI_Datatype, Type)
MPI_ABI_FORTRAN_HANDLE_(MPI_Errhandler, Errhandler)
MPI_ABI_FORTRAN_HANDLE_(MPI_File, File)
MPI_ABI_FORTRAN_HANDLE_(MPI_Group, Group)
MPI_ABI_FORTRAN_HANDLE_(MPI_Info, Info)
MPI_ABI_FORTRAN_HANDLE_(MPI_Message, Message)
MPI_ABI_FORTRAN_HANDLE_(MPI_Op, Op)
MPI_ABI_FORTRAN_HANDLE_(MPI_Request, Request)
MPI_ABI_FORTRAN_HANDLE_(MPI_Session, Session)
MPI_ABI_FORTRAN_HANDLE_(MPI_Win, Win)
#undef MPI_ABI_FORTRAN_HANDLE_

/* Fortran's MPI_STATUS_IGNORE and MPI_STATUSES_IGNORE in C: COMMON blocks of mpif.h.  Null in a process without
 * Fortran's library, hence weak. */
extern MPI_Fint mpi_fortran_status_ignore_[] __attribute__((weak));
extern MPI_Fint mpi_fortran_statuses_ignore_[] __attribute__((weak));
#define MPI_F_STATUS_IGNORE mpi_fortran_status_ignore_
#define MPI_F_STATUSES_IGNORE mpi_fortran_statuses_ignore_

/* A status has the same layout, eight integers, in C, in Fortran arrays and in Fortran 2008. */
typedef MPI_Status MPI_F08_status;
#define MPI_F08_STATUS_IGNORE MPI_STATUS_IGNORE
#define MPI_F08_STATUSES_IGNORE MPI_STATUSES_IGNORE

static inline int MPI_Status_c2f(const MPI_Status* c_status, MPI_Fint* f_status) {
  f_status[MPI_F_SOURCE] = c_status->MPI_SOURCE;
  f_status[MPI_F_TAG] = c_status->MPI_TAG;
  f_status[MPI_F_ERROR] = c_status->MPI_ERROR;
  for (int i = 0; i < 5; ++i) f_status[3 + i] = c_status->MPI_internal[i];
  return MPI_SUCCESS;
}

static inline int MPI_Status_f2c(const MPI_Fint* f_status, MPI_Status* c_status) {
  c_status->MPI_SOURCE = f_status[MPI_F_SOURCE];
  c_status->MPI_TAG = f_status[MPI_F_TAG];
  c_status->MPI_ERROR = f_status[MPI_F_ERROR];
  for (int i = 0; i < 5; ++i) c_status->MPI_internal[i] = f_status[3 + i];
  return MPI_SUCCESS;
}

static inline int MPI_Status_c2f08(const MPI_Status* c_status, MPI_F08_status* f08_status) {
  *f08_status = *c_status;
  return MPI_SUCCESS;
}

static inline int MPI_Status_f082c(const MPI_F08_status* f08_status, MPI_Status* c_status) {
  *c_status = *f08_status;
  return MPI_SUCCESS;
}

static inline int MPI_Status_f2f08(const MPI_Fint* f_status, MPI_F08_status* f08_status) {
  return MPI_Status_f2c(f_status, f08_status);
}

static inline int MPI_Status_f082f(const MPI_F08_status* f08_status, MPI_Fint* f_status) {
  return MPI_Status_c2f(f08_status, f_status);
}

/* ---- Removed in MPI 3.0 ----------------------------------------------------------------------------------------- */

typedef MPI_Comm_errhandler_function MPI_Handler_function;

static inline int MPI_Address(void* location, MPI_Aint* address) { return MPI_Get_address(location, address); }

static inline int MPI_Type_extent(MPI_Datatype datatype, MPI_Aint* extent) {
  MPI_Aint lb;
  return MPI_Type_get_extent(datatype, &lb, extent);
}

static inline int MPI_Type_lb(MPI_Datatype datatype, MPI_Aint* displacement) {
  MPI_Aint extent;
  return MPI_Type_get_extent(datatype, displacement, &extent);
}

static inline int MPI_Type_ub(MPI_Datatype datatype, MPI_Aint* displacement) {
  MPI_Aint extent = 0;
  const int result = MPI_Type_get_extent(datatype, displacement, &extent);
  if (result == MPI_SUCCESS) *displacement += extent;
  return result;
}

static inline int MPI_Type_hvector(int count, int blocklength, MPI_Aint stride, MPI_Datatype oldtype,
                                   MPI_Datatype* newtype) {
  return MPI_Type_create_hvector(count, blocklength, stride, oldtype, newtype);
}

static inline int MPI_Type_hindexed(int count, int blocklengths[], MPI_Aint displacements[], MPI_Datatype oldtype,
                                    MPI_Datatype* newtype) {
  return MPI_Type_create_hindexed(count, blocklengths, displacements, oldtype, newtype);
}

static inline int MPI_Type_struct(int count, int blocklengths[], MPI_Aint displacements[], MPI_Datatype types[],
                                  MPI_Datatype* newtype) {
  return MPI_Type_create_struct(count, blocklengths, displacements, types, newtype);
}

static inline int MPI_Errhandler_create(MPI_Handler_function* handler_fn, MPI_Errhandler* errhandler) {
  return MPI_Comm_create_errhandler(handler_fn, errhandler);
}

static inline int MPI_Errhandler_get(MPI_Comm comm, MPI_Errhandler* errhandler) {
  return MPI_Comm_get_errhandler(comm, errhandler);
}

static inline int MPI_Errhandler_set(MPI_Comm comm, MPI_Errhandler errhandler) {
  return MPI_Comm_set_errhandler(comm, errhandler);
}

#ifdef __cplusplus
}
#endif

#endif /* OPAL_MPI_COMPAT_H */
