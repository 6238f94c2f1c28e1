! SPDX-License-Identifier: Apache-2.0
! The module of `use mpi`: its constants.  Procedures have no interfaces, as with mpif.h.
module mpi
  include "mpif.h"
end module mpi
