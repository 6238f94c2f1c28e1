! SPDX-License-Identifier: Apache-2.0
! A program as it was written before modules: fixed form, mpif.h, functions since removed.  Pi, by rank 0's sum.
      program pi
      implicit none
      include 'mpif.h'
      integer ierr, rank, size, i, n, ext, tag, val, row
      integer lens(2), disp(2), kind(2)
      double precision h, x, mine, whole, t
      logical flag
      common /pair/ n, val
      call mpi_init(ierr)
      t = mpi_wtime()
      call mpi_comm_rank(MPI_COMM_WORLD, rank, ierr)
      call mpi_comm_size(MPI_COMM_WORLD, size, ierr)
      n = 0
      val = 0
      if (rank .eq. 0) n = 1000
      if (rank .eq. 0) val = 17
      call mpi_type_extent(MPI_INTEGER, ext, ierr)
      lens(1) = 1
      lens(2) = 1
      disp(1) = 0
      disp(2) = ext
      kind(1) = MPI_INTEGER
      kind(2) = MPI_INTEGER
      call mpi_type_struct(2, lens, disp, kind, row, ierr)
      call mpi_type_commit(row, ierr)
      call mpi_bcast(n, 1, row, 0, MPI_COMM_WORLD, ierr)
      call mpi_type_free(row, ierr)
      h = 1.0d0 / n
      mine = 0.0d0
      do 10 i = rank + 1, n, size
        x = h * (dble(i) - 0.5d0)
        mine = mine + 4.0d0 / (1.0d0 + x * x)
 10   continue
      mine = h * mine
      call mpi_reduce(mine, whole, 1, MPI_DOUBLE_PRECISION, MPI_SUM,
     &                0, MPI_COMM_WORLD, ierr)
      call mpi_attr_get(MPI_COMM_WORLD, MPI_TAG_UB, tag, flag, ierr)
      if (rank .eq. 0) then
        if (abs(whole - 3.14159265d0) .gt. 1.0d-5) ierr = -1
      end if
      if (val .ne. 17 .or. .not. flag .or. tag .lt. 32767) ierr = -1
      if (mpi_wtime() .lt. t) ierr = -1
      if (ierr .ne. MPI_SUCCESS) call mpi_abort(MPI_COMM_WORLD, 3, ierr)
      call mpi_finalize(ierr)
      end
