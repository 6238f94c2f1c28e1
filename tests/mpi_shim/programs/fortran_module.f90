! SPDX-License-Identifier: Apache-2.0
! What Fortran changes about MPI, with `use mpi`: constants that are addresses, integers for handles, indices from 1,
! padded strings, logicals, callbacks.  Any number of ranks.
module callbacks
  implicit none
  integer :: errors_seen = 0, copies = 0, deletions = 0, types_seen(2) = 0
contains
  subroutine larger(in, inout, length, datatype)
    use mpi
    integer :: length, datatype, i
    integer :: in(length), inout(length)
    if (datatype == MPI_INTEGER) types_seen(1) = types_seen(1) + 1
    do i = 1, length
      inout(i) = max(in(i), inout(i))
    end do
  end subroutine
  subroutine larger_pairs(in, inout, length, datatype)
    use mpi
    integer :: length, datatype, i, bytes, ierror
    integer :: in(2, length), inout(2, length)
    call MPI_Type_size(datatype, bytes, ierror)
    if (bytes == 8) types_seen(2) = types_seen(2) + 1
    do i = 1, length
      if (in(1, i) > inout(1, i)) inout(:, i) = in(:, i)
    end do
  end subroutine
  subroutine on_error(comm, code)
    use mpi
    integer :: comm, code, class, ierror
    call MPI_Error_class(code, class, ierror)
    if (class == MPI_ERR_RANK .and. comm /= MPI_COMM_NULL) errors_seen = errors_seen + 1
  end subroutine
  subroutine copy(comm, keyval, extra, in, out, flag, ierror)
    use mpi
    integer :: comm, keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: extra, in, out
    logical :: flag
    copies = copies + 1
    out = in + extra
    flag = .true.
    ierror = MPI_SUCCESS
  end subroutine
  subroutine remove(comm, keyval, value, extra, ierror)
    use mpi
    integer :: comm, keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: value, extra
    deletions = deletions + 1
    ierror = MPI_SUCCESS
  end subroutine
  subroutine query(extra, status, ierror)
    use mpi
    integer :: status(MPI_STATUS_SIZE), ierror
    integer(kind=MPI_ADDRESS_KIND) :: extra
    status(MPI_TAG) = int(extra)
    call MPI_Status_set_elements(status, MPI_INTEGER, 6, ierror)
    call MPI_Status_set_cancelled(status, .false., ierror)
  end subroutine
  subroutine release(extra, ierror)
    use mpi
    integer :: ierror
    integer(kind=MPI_ADDRESS_KIND) :: extra
    extra = extra + 1
    ierror = MPI_SUCCESS
  end subroutine
  subroutine cancel(extra, complete, ierror)
    use mpi
    integer :: ierror
    integer(kind=MPI_ADDRESS_KIND) :: extra
    logical :: complete
    ierror = MPI_SUCCESS
  end subroutine
end module

program fortran_module
  use mpi
  use callbacks
  implicit none
  integer :: ierror, rank, ranks, failed = 0
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  call messages
  call buffered
  call collectives
  call ignored_statuses
  call types
  call communicators
  call strings
  call windows
  call MPI_Finalize(ierror)
  if (failed /= 0) stop 1
contains
  subroutine check(holds, what)
    logical :: holds
    character(len=*) :: what
    if (holds) return
    print *, 'rank', rank, 'failed: ', what
    failed = failed + 1
  end subroutine

  subroutine messages
    integer :: right, left, requests(2), statuses(MPI_STATUS_SIZE, 2), status(MPI_STATUS_SIZE)
    integer :: sent(3), got(3), count, index, done, which(2), waited
    integer(kind=MPI_ADDRESS_KIND), volatile :: state
    logical :: flag
    right = mod(rank + 1, ranks)
    left = mod(rank + ranks - 1, ranks)
    sent = [rank, rank + 1, rank + 2]
    call MPI_Irecv(got, 3, MPI_INTEGER, left, 7, MPI_COMM_WORLD, requests(1), ierror)
    call MPI_Isend(sent, 3, MPI_INTEGER, right, 7, MPI_COMM_WORLD, requests(2), ierror)
    call MPI_Waitall(2, requests, statuses, ierror)
    call check(all(requests == MPI_REQUEST_NULL), 'completed requests are null')
    call check(all(got == [left, left + 1, left + 2]), 'received what was sent')
    call check(statuses(MPI_SOURCE, 1) == left .and. statuses(MPI_TAG, 1) == 7, 'status of one of two')
    call MPI_Get_count(statuses(:, 1), MPI_INTEGER, count, ierror)
    call check(count == 3, 'count of a status')
    call MPI_Sendrecv(sent, 2, MPI_INTEGER, right, 8, got, 3, MPI_INTEGER, left, MPI_ANY_TAG, MPI_COMM_WORLD, status, ierror)
    call MPI_Get_count(status, MPI_INTEGER, count, ierror)
    call check(count == 2 .and. status(MPI_TAG) == 8, 'status of MPI_Sendrecv')
    requests(1) = MPI_REQUEST_NULL
    call MPI_Isend(sent, 1, MPI_INTEGER, rank, 9, MPI_COMM_WORLD, requests(2), ierror)
    call MPI_Recv(got, 1, MPI_INTEGER, rank, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    call MPI_Waitany(2, requests, index, status, ierror)
    call check(index == 2, 'indices begin with 1')
    call MPI_Waitany(2, requests, index, MPI_STATUS_IGNORE, ierror)
    call check(index == MPI_UNDEFINED, 'no index of null requests')
    call MPI_Isend(sent, 1, MPI_INTEGER, rank, 9, MPI_COMM_WORLD, requests(2), ierror)
    call MPI_Recv(got, 1, MPI_INTEGER, rank, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    call MPI_Waitsome(2, requests, done, which, MPI_STATUSES_IGNORE, ierror)
    call check(done == 1 .and. which(1) == 2, 'indices of MPI_Waitsome')
    call MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, flag, status, ierror)
    call check(.not. flag, 'no message to probe')
    call MPI_Isend(sent, 1, MPI_INTEGER, rank, 9, MPI_COMM_WORLD, requests(1), ierror)
    flag = .false.
    do while (.not. flag)
      call MPI_Iprobe(rank, 9, MPI_COMM_WORLD, flag, status, ierror)
    end do
    call MPI_Recv(got, 1, MPI_INTEGER, rank, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    flag = .false.
    waited = 0
    do while (.not. flag)
      call MPI_Test(requests(1), flag, MPI_STATUS_IGNORE, ierror)
      waited = waited + 1
    end do
    state = 30
    call MPI_Grequest_start(query, release, cancel, state, requests(2), ierror)
    call MPI_Grequest_complete(requests(2), ierror)
    call MPI_Wait(requests(2), status, ierror)
    call MPI_Get_elements(status, MPI_INTEGER, count, ierror)
    call check(status(MPI_TAG) == 30 .and. count == 6 .and. state == 31, 'generalized request')
    call check(waited > 0 .and. requests(1) == MPI_REQUEST_NULL, 'MPI_Test')
  end subroutine

  subroutine buffered
    integer :: status(MPI_STATUS_SIZE), count, unused, size, got(2)
    call MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0, ierror)
    call MPI_Bsend([rank, 5], 2, MPI_INTEGER, rank, 10, MPI_COMM_WORLD, ierror)
    call MPI_Recv(got, 2, MPI_INTEGER, rank, 10, MPI_COMM_WORLD, status, ierror)
    call MPI_Get_count(status, MPI_INTEGER, count, ierror)
    call check(count == 2 .and. all(got == [rank, 5]), 'message in memory of the library')
    call MPI_Buffer_detach(unused, size, ierror)
    call check(size == 0, 'MPI_BUFFER_AUTOMATIC has no size')
    call MPI_Comm_attach_buffer(MPI_COMM_SELF, MPI_BUFFER_AUTOMATIC, 0, ierror)
    call MPI_Bsend(rank, 1, MPI_INTEGER, 0, 11, MPI_COMM_SELF, ierror)
    call MPI_Recv(got, 1, MPI_INTEGER, 0, 11, MPI_COMM_SELF, status, ierror)
    call check(got(1) == rank, 'message in memory of the library, of one communicator')
    call MPI_Comm_detach_buffer(MPI_COMM_SELF, unused, size, ierror)
  end subroutine

  subroutine collectives
    integer :: value(2), op, pairs(2, 1), pair, request, types(ranks), counts(ranks), offsets(ranks), from(ranks), to(ranks), i
    double precision :: sum(3)
    complex :: z
    sum = [1d0, 2d0, 3d0]
    call MPI_Allreduce(MPI_IN_PLACE, sum, 3, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierror)
    call check(all(sum == ranks * [1d0, 2d0, 3d0]), 'MPI_IN_PLACE')
    z = (1.0, 2.0)
    call MPI_Allreduce(MPI_IN_PLACE, z, 1, MPI_COMPLEX, MPI_SUM, MPI_COMM_WORLD, ierror)
    call check(z == ranks * (1.0, 2.0), 'sum of complex numbers')
    call MPI_Op_create(larger, .true., op, ierror)
    call MPI_Allreduce([rank, -rank], value, 2, MPI_INTEGER, op, MPI_COMM_WORLD, ierror)
    call check(all(value == [ranks - 1, 0]), 'own operation')
    call MPI_Op_free(op, ierror)
    call check(op == MPI_OP_NULL, 'freed operation is null')
    call MPI_Type_contiguous(2, MPI_INTEGER, pair, ierror)
    call MPI_Type_commit(pair, ierror)
    call MPI_Op_create(larger_pairs, .true., op, ierror)
    call MPI_Iallreduce(reshape([mod(rank, 3), rank], [2, 1]), pairs, 1, pair, op, MPI_COMM_WORLD, request, ierror)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
    call check(pairs(1, 1) == min(ranks - 1, 2), 'own operation on an own type')
    call MPI_Allreduce(MPI_IN_PLACE, types_seen, 2, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
    call check(ranks == 1 .or. all(types_seen > 0), 'own operations are told the type')
    call MPI_Op_free(op, ierror)
    call MPI_Type_free(pair, ierror)
    types = MPI_INTEGER
    counts = 1
    offsets = [(4 * i, i = 0, ranks - 1)]
    from = rank
    call MPI_Alltoallw(from, counts, offsets, types, to, counts, offsets, types, MPI_COMM_WORLD, ierror)
    call check(all(to == [(i, i = 0, ranks - 1)]), 'MPI_Alltoallw')
    to = rank
    ! The arguments for sending are ignored then, and need not be arrays.
    call MPI_Alltoallw(MPI_IN_PLACE, 0, 0, MPI_DATATYPE_NULL, to, counts, offsets, types, MPI_COMM_WORLD, ierror)
    call check(all(to == [(i, i = 0, ranks - 1)]), 'MPI_Alltoallw in place')
  end subroutine

  subroutine ignored_statuses
    integer :: status(MPI_STATUS_SIZE)
    integer, external :: c_ignored
    call check(c_ignored(MPI_STATUS_IGNORE) == 1 .and. c_ignored(MPI_STATUSES_IGNORE) == 2 .and. &
               c_ignored(status) == 0, 'C knows the ignored statuses of Fortran')
  end subroutine

  subroutine types
    integer :: matrix(4, 4), column(4), row, both, whole, i
    integer(kind=MPI_ADDRESS_KIND) :: addresses(2), lower, extent
    integer :: first, combiner, integers, kinds, counts(3), oldtypes(1)
    double precision :: second
    matrix = reshape([(i, i = 1, 16)], [4, 4])
    call MPI_Type_vector(4, 1, 4, MPI_INTEGER, row, ierror)
    call MPI_Type_commit(row, ierror)
    call MPI_Sendrecv(matrix(2, 1), 1, row, rank, 1, column, 4, MPI_INTEGER, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    call check(all(column == [2, 6, 10, 14]), 'a row of a matrix')
    call MPI_Type_get_envelope(row, integers, first, kinds, combiner, ierror)
    call check(integers == 3 .and. kinds == 1 .and. combiner == MPI_COMBINER_VECTOR, 'envelope')
    call MPI_Type_get_contents(row, 3, 0, 1, counts, addresses, oldtypes, ierror)
    call check(all(counts == [4, 1, 4]) .and. oldtypes(1) == MPI_INTEGER, 'contents')
    first = rank
    second = 2.5d0 * rank
    call MPI_Get_address(first, addresses(1), ierror)
    call MPI_Get_address(second, addresses(2), ierror)
    call MPI_Type_create_struct(2, [1, 1], addresses, [MPI_INTEGER, MPI_DOUBLE_PRECISION], both, ierror)
    call MPI_Type_commit(both, ierror)
    call MPI_Bcast(MPI_BOTTOM, 1, both, 0, MPI_COMM_WORLD, ierror)
    call check(first == 0 .and. second == 0d0, 'MPI_BOTTOM')
    call MPI_Type_create_resized(MPI_REAL, 0_MPI_ADDRESS_KIND, 16_MPI_ADDRESS_KIND, whole, ierror)
    call MPI_Type_get_extent(whole, lower, extent, ierror)
    call check(lower == 0 .and. extent == 16, 'extent')
    call MPI_Type_free(whole, ierror)
    call MPI_Type_free(both, ierror)
    call MPI_Type_free(row, ierror)
  end subroutine

  subroutine communicators
    integer :: half, grid, keyval, handler, twin, dims(1), coords(1), size, result, graph
    integer(kind=MPI_ADDRESS_KIND) :: value, found
    logical :: flag, periods(1)
    call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), -rank, half, ierror)
    call MPI_Comm_size(half, size, ierror)
    call check(size == (ranks + 1 - mod(rank, 2)) / 2, 'half of the ranks')
    call MPI_Comm_compare(half, half, result, ierror)
    call check(result == MPI_IDENT, 'comparison')
    call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, flag, ierror)
    call check(flag .and. value >= 32767, 'MPI_TAG_UB is a value')
    call MPI_Comm_create_keyval(copy, remove, keyval, 5_MPI_ADDRESS_KIND, ierror)
    call MPI_Comm_set_attr(half, keyval, 37_MPI_ADDRESS_KIND, ierror)
    call MPI_Comm_dup(half, twin, ierror)
    call MPI_Comm_get_attr(twin, keyval, found, flag, ierror)
    call check(flag .and. found == 42 .and. copies == 1, 'own copying of an attribute')
    call MPI_Comm_free(twin, ierror)
    call check(deletions == 1 .and. twin == MPI_COMM_NULL, 'own deleting of an attribute')
    call MPI_Comm_free_keyval(keyval, ierror)
    call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, keyval, 0_MPI_ADDRESS_KIND, ierror)
    call MPI_Comm_set_attr(half, keyval, 11_MPI_ADDRESS_KIND, ierror)
    call MPI_Comm_dup(half, twin, ierror)
    call MPI_Comm_get_attr(twin, keyval, found, flag, ierror)
    call check(flag .and. found == 11, 'MPI_COMM_DUP_FN')
    call attributes_of_both_languages(half, keyval)
    call MPI_Comm_get_attr(twin, keyval, found, flag, ierror)
    call check(flag .and. found == 11, 'an attribute after changes of the one it was copied from')
    call MPI_Comm_create_errhandler(on_error, handler, ierror)
    call MPI_Comm_set_errhandler(twin, handler, ierror)
    call MPI_Send(size, 1, MPI_INTEGER, 100000, 0, twin, ierror)
    call check(errors_seen == 1, 'own error handler')
    call MPI_Errhandler_free(handler, ierror)
    call MPI_Comm_free(twin, ierror)
    call duplicated_later(half, size)
    dims = 0
    call MPI_Dims_create(ranks, 1, dims, ierror)
    call MPI_Cart_create(MPI_COMM_WORLD, 1, dims, [.true.], .false., grid, ierror)
    call MPI_Cart_get(grid, 1, dims, periods, coords, ierror)
    call check(dims(1) == ranks .and. periods(1) .and. coords(1) == rank, 'grid')
    call MPI_Comm_free(grid, ierror)
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [rank], MPI_UNWEIGHTED, 1, [rank], MPI_UNWEIGHTED, &
                                        MPI_INFO_NULL, .false., graph, ierror)
    call MPI_Dist_graph_neighbors_count(graph, size, result, flag, ierror)
    call check(size == 1 .and. .not. flag, 'graph without weights')
    call MPI_Comm_free(graph, ierror)
    call MPI_Comm_free(half, ierror)
  end subroutine

  ! C gets the address of what Fortran has set, and Fortran gets the address that C has set, also of duplicates.
  subroutine attributes_of_both_languages(comm, keyval)
    integer :: comm, keyval, keys(3), twins(3), old, key, i
    integer(kind=MPI_ADDRESS_KIND) :: value, found
    integer(kind=MPI_ADDRESS_KIND), target :: variable
    logical :: flag
    external :: c_get_attr, c_attr_get, c_set_attr, c_create_keyval
    keys(1) = keyval
    call c_create_keyval(keys(2))
    call MPI_Comm_create_keyval(copy, remove, keys(3), 5_MPI_ADDRESS_KIND, ierror)
    do i = 1, 3
      call MPI_Comm_set_attr(comm, keys(i), 41_MPI_ADDRESS_KIND, ierror)
      call MPI_Comm_set_attr(comm, keys(i), -(ishft(1_MPI_ADDRESS_KIND, 40) + i), ierror)
    end do
    call MPI_Comm_dup(comm, twins(1), ierror)
    call MPI_Comm_dup(comm, twins(2), ierror)
    call MPI_Comm_free(twins(1), ierror)
    call MPI_Comm_dup(twins(2), twins(3), ierror)
    do i = 1, 3
      value = -(ishft(1_MPI_ADDRESS_KIND, 40) + i)
      call c_get_attr(comm, keys(i), found)
      call check(found == value, 'C reads what Fortran has set')
      if (i == 3) value = value + 10
      call c_get_attr(twins(3), keys(i), found)
      call check(found == value, 'C reads the copy of what Fortran has set')
      call MPI_Comm_get_attr(twins(3), keys(i), found, flag, ierror)
      call check(flag .and. found == value, 'Fortran reads the copy of what it has set')
    end do
    call MPI_Comm_free(twins(2), ierror)
    call MPI_Comm_free(twins(3), ierror)
    call MPI_Attr_put(comm, keyval, -12, ierror)
    call c_attr_get(comm, keyval, old)
    call check(old == -12, 'C reads what MPI_Attr_put has set')
    call MPI_Attr_get(comm, keyval, old, flag, ierror)
    call check(flag .and. old == -12, 'MPI_Attr_get reads what MPI_Attr_put has set')
    do i = 1, 2
      variable = 13
      call c_set_attr(comm, keys(i), variable)
      call MPI_Comm_dup(comm, twins(1), ierror)
      call MPI_Comm_get_attr(twins(1), keys(i), found, flag, ierror)
      call MPI_Get_address(variable, value, ierror)
      call check(flag .and. found == value, 'Fortran reads the address that C has set')
      call c_get_attr(twins(1), keys(i), found)
      call check(found == 13, 'C reads the address that it has set')
      call MPI_Comm_free(twins(1), ierror)
    end do
    do i = 2, 3
      call MPI_Comm_delete_attr(comm, keys(i), ierror)
      key = keys(i)
      call MPI_Comm_free_keyval(key, ierror)
    end do
    call MPI_Comm_set_attr(comm, keyval, 11_MPI_ADDRESS_KIND, ierror)
  end subroutine

  ! Other calls use the stack between the start and the end of a duplication.
  subroutine duplicated_later(comm, size)
    integer :: comm, size, twins(2), requests(2), length, i, sum
    character(len=MPI_MAX_ERROR_STRING) :: text
    twins = -1
    call MPI_Comm_idup(comm, twins(1), requests(1), ierror)
    call MPI_Comm_idup_with_info(comm, MPI_INFO_NULL, twins(2), requests(2), ierror)
    call MPI_Error_string(MPI_ERR_RANK, text, length, ierror)
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierror)
    call check(text(1:4) == 'MPI_', 'the stack of other calls')
    do i = 1, 2
      sum = 0
      call MPI_Allreduce(1, sum, 1, MPI_INTEGER, MPI_SUM, twins(i), ierror)
      call check(sum == size, 'a communicator duplicated later')
      call MPI_Comm_free(twins(i), ierror)
    end do
  end subroutine

  subroutine strings
    character(len=MPI_MAX_PROCESSOR_NAME) :: name
    character(len=MPI_MAX_ERROR_STRING) :: text
    character(len=5) :: short
    integer :: length, info, twin
    logical :: flag
    call MPI_Get_processor_name(name, length, ierror)
    call check(length > 0 .and. name(length:length) /= ' ' .and. len_trim(name) == length, 'name of the host')
    call MPI_Error_string(MPI_ERR_RANK, text, length, ierror)
    call check(len_trim(text) == length, 'text of an error')
    call MPI_Info_create(info, ierror)
    call MPI_Info_set(info, ' key ', ' some value ', ierror)
    call MPI_Info_get(info, 'key', 10, text, flag, ierror)
    call check(flag .and. text == 'some value', 'value of an info')
    text = 'kept'
    call MPI_Info_get(info, 'other', 10, text, flag, ierror)
    call check(.not. flag .and. text == 'kept', 'no value of an info')
    length = len(short)
    call MPI_Info_get_string(info, 'key', length, short, flag, ierror)
    call check(flag .and. short == 'some ' .and. length == 10, 'beginning of a value')
    call MPI_Info_free(info, ierror)
    call MPI_Comm_dup(MPI_COMM_WORLD, twin, ierror)
    call MPI_Comm_set_name(twin, 'the twin   ', ierror)
    call MPI_Comm_get_name(twin, text, length, ierror)
    call check(text == 'the twin' .and. length == 8, 'name of a communicator')
    call MPI_Comm_free(twin, ierror)
  end subroutine

  subroutine windows
    integer :: window, memory(2), got
    integer(kind=MPI_ADDRESS_KIND) :: size
    logical :: flag
    memory = rank
    call MPI_Win_create(memory, 8_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, window, ierror)
    call MPI_Win_fence(0, window, ierror)
    call MPI_Put(rank, 1, MPI_INTEGER, mod(rank + 1, ranks), 1_MPI_ADDRESS_KIND, 1, MPI_INTEGER, window, ierror)
    call MPI_Win_fence(0, window, ierror)
    call check(memory(1) == rank .and. memory(2) == mod(rank + ranks - 1, ranks), 'MPI_Put')
    call MPI_Get(got, 1, MPI_INTEGER, 0, 0_MPI_ADDRESS_KIND, 1, MPI_INTEGER, window, ierror)
    call MPI_Win_fence(0, window, ierror)
    call check(got == 0, 'MPI_Get')
    call MPI_Win_get_attr(window, MPI_WIN_SIZE, size, flag, ierror)
    call check(flag .and. size == 8, 'size of a window')
    call MPI_Win_free(window, ierror)
    call check(window == MPI_WIN_NULL, 'freed window is null')
  end subroutine
end program
