! SPDX-License-Identifier: Apache-2.0
! The procedures of module mpi can be named one by one, and called where none may be called without an interface.
program names
  use mpi, only: MPI_COMM_WORLD, MPI_INTEGER, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_IN_PLACE, MPI_STATUS_IGNORE, &
                 MPI_Init, MPI_Comm_size, MPI_Comm_rank, MPI_Allreduce, MPI_Sendrecv, MPI_Op_create, MPI_Op_free, &
                 MPI_Comm_set_name, MPI_Comm_get_name, MPI_Abort, MPI_Finalize, MPI_Wtime, MPI_MAX_OBJECT_NAME
  implicit none (type, external)
  integer :: rank, size, sum(2, 3), op, length, ierror, i
  double precision :: row(4), matrix(2, 4), begin
  character(len=MPI_MAX_OBJECT_NAME) :: name
  call MPI_Init(ierror)
  begin = MPI_Wtime()
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  sum = rank
  call MPI_Allreduce(MPI_IN_PLACE, sum, 6, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
  if (any(sum /= size * (size - 1) / 2)) call MPI_Abort(MPI_COMM_WORLD, 1, ierror)
  matrix = reshape([(dble(i), i = 1, 8)], [2, 4])
  call MPI_Sendrecv(matrix(2, :), 4, MPI_DOUBLE_PRECISION, rank, 1, row, 4, MPI_DOUBLE_PRECISION, rank, 1, &
                    MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
  if (any(row /= matrix(2, :))) call MPI_Abort(MPI_COMM_WORLD, 2, ierror)
  call MPI_Op_create(larger, .true., op, ierror)
  i = rank
  call MPI_Allreduce(MPI_IN_PLACE, i, 1, MPI_INTEGER, op, MPI_COMM_WORLD, ierror)
  if (i /= size - 1) call MPI_Abort(MPI_COMM_WORLD, 3, ierror)
  call MPI_Op_free(op, ierror)
  call MPI_Comm_set_name(MPI_COMM_WORLD, '  a name ', ierror)
  call MPI_Comm_get_name(MPI_COMM_WORLD, name, length, ierror)
  if (name /= '  a name' .or. length /= 8 .or. begin > MPI_Wtime()) call MPI_Abort(MPI_COMM_WORLD, 4, ierror)
  call MPI_Finalize(ierror)
contains
  subroutine larger(in, inout, length, datatype)
    integer :: length, datatype
    integer :: in(length), inout(length)
    if (datatype == MPI_INTEGER) inout = max(in, inout)
  end subroutine
end program
