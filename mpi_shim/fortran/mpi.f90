! SPDX-License-Identifier: Apache-2.0
! The module of `use mpi`: its constants, and its procedures, whose arguments are not checked.
module mpi
  include "mpif.h"
  include "mpi_interfaces.inc"
end module mpi
