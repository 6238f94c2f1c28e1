/* SPDX-License-Identifier: Apache-2.0
 * Rank 1 dies at the worst moment, and the launcher lets the others go on: each of their calls ends, those that depend
 * on the dead rank with an error.  The argument says where it dies. */
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/mpi_shim/programs/check.h"

enum { dying = 1, page = 4096, pieces = 512, piece = 64 };
static int rank, size;

static int class_of(int code) {
  int error_class = -1;
  MPI_Error_class(code, &error_class);
  return error_class;
}

static void die(int signal_number) {
  (void)signal_number;
  raise(SIGKILL);
}

/* The dying rank says that it is where it should be.  All are connected to it then: only such notice its death. */
static void tell_the_others(void) {
  for (int other = 0; other < size; ++other) {
    if (other != rank) MPI_Ssend(&rank, 1, MPI_INT, other, 9, MPI_COMM_WORLD);
  }
}
static void hear(void) {
  int from = -1;
  CHECK(MPI_Recv(&from, 1, MPI_INT, dying, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
}

/* Only rank 0 speaks, once all survivors have come here.  They end without MPI_Finalize, so each waits until its word
 * is received: what a process that ends has not got rid of is lost. */
static void end(const char* what) {
  int word = 0;
  if (rank != 0) MPI_Ssend(&word, 1, MPI_INT, 0, 10, MPI_COMM_WORLD);
  for (int other = 2; rank == 0 && other < size; ++other) {
    CHECK(MPI_Recv(&word, 1, MPI_INT, other, 10, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
  }
  if (rank == 0) printf("all survivors have ended: %s\n", what);
  fflush(stdout);
}

static MPI_Win window_of(MPI_Aint bytes) {
  void* memory;
  MPI_Win window;
  MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
  return window;
}

static void with_a_lock(int type, int target) {
  const MPI_Win window = window_of(64);
  if (rank == dying) {
    CHECK(MPI_Win_lock(type, target, 0, window) == MPI_SUCCESS);
    tell_the_others();
    raise(SIGKILL);
  }
  hear();
  CHECK_EQ(class_of(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window)), MPI_ERR_PROC_ABORTED);
  if (type == MPI_LOCK_EXCLUSIVE && target != dying) {
    CHECK_EQ(class_of(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, window)), MPI_ERR_PROC_ABORTED);
    int error = MPI_Win_lock_all(0, window);
    if (error == MPI_SUCCESS) { /* a rank of another host is locked at the first access to it */
      const int zero = 0;
      error = MPI_Put(&zero, 1, MPI_INT, target, 0, 1, MPI_INT, window);
      CHECK(MPI_Win_unlock_all(window) == MPI_SUCCESS);
    }
    CHECK_EQ(class_of(error), MPI_ERR_PROC_ABORTED);
  }
  /* Nothing is left locked of what that lock_all had before it failed. */
  if (rank == 0 && target == 2) {
    CHECK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window) == MPI_SUCCESS);
    CHECK(MPI_Win_unlock(0, window) == MPI_SUCCESS);
  }
}

/* The origin's memory ends inside of the accumulate, which holds the lock of the target's elements then. */
static void in_an_accumulate(void) {
  const MPI_Win window = window_of(64 * page);
  CHECK(MPI_Win_lock_all(0, window) == MPI_SUCCESS);
  if (rank == dying) {
    int* origin = mmap(NULL, 64 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    tell_the_others();
    signal(SIGSEGV, die);
    signal(SIGBUS, die);
    mprotect((char*)origin + 32 * page, 32 * page, PROT_NONE);
    MPI_Accumulate(origin, 64 * page / (int)sizeof(int), MPI_INT, 0, 0, 64 * page / (int)sizeof(int), MPI_INT, MPI_SUM,
                   window);
    MPI_Win_flush(0, window);
    MPI_Abort(MPI_COMM_WORLD, 1); /* it was to die before */
  }
  hear();
  const int one = 1;
  int before = -1, error = MPI_SUCCESS;
  /* It may not have come so far yet. */
  while (error == MPI_SUCCESS) {
    error = MPI_Fetch_and_op(&one, &before, MPI_INT, 0, 0, MPI_SUM, window);
    if (error == MPI_SUCCESS) error = MPI_Win_flush(0, window);
  }
  CHECK_EQ(class_of(error), MPI_ERR_PROC_ABORTED);
}

/* The dying rank's entry of `piece` bytes at `base` in its table of attached memory; null without a table.  The table
 * is in the only memory of this name if collectives share none.  Sets `end` to the end of that mapping. */
static uintptr_t find_entry(const char* base, uintptr_t* end) {
  FILE* const maps = fopen("/proc/self/maps", "r");
  char line[512];
  uintptr_t found = 0;
  while (found == 0 && fgets(line, sizeof line, maps) != NULL) {
    unsigned long first, last;
    if (strstr(line, "opal-mpi-host") == NULL || sscanf(line, "%lx-%lx rw", &first, &last) != 2) continue;
    for (const uint64_t* word = (const uint64_t*)first; (uintptr_t)(word + 2) <= last && found == 0; ++word) {
      if (word[0] == (uintptr_t)base && word[1] == piece) found = (uintptr_t)word;
    }
    *end = last;
  }
  fclose(maps);
  return found;
}

/* The table of the attached memory stays in the middle of a change. */
static void in_an_attach(void) {
  static char memory[pieces * piece];
  MPI_Win window;
  MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
  CHECK(MPI_Win_lock_all(0, window) == MPI_SUCCESS);
  long word[2] = {0, getpid()};
  MPI_Get_address(memory, &word[0]);
  if (rank == dying) {
    CHECK(MPI_Win_attach(window, memory, piece) == MPI_SUCCESS);
    uintptr_t end = 0;
    const uintptr_t entry = find_entry(memory, &end);
    for (int other = 0; other < size; ++other) {
      if (other != rank) MPI_Ssend(word, 2, MPI_LONG, other, 9, MPI_COMM_WORLD);
    }
    signal(SIGSEGV, die);
    signal(SIGBUS, die);
    const uintptr_t next_page = (entry / page + 1) * page;
    if (entry == 0 || mprotect((void*)next_page, end - next_page, PROT_NONE) != 0) raise(SIGKILL);
    for (int i = 1; i < pieces; ++i) MPI_Win_attach(window, memory + i * piece, piece);
    MPI_Abort(MPI_COMM_WORLD, 1); /* it was to die before */
  }
  CHECK(MPI_Recv(word, 2, MPI_LONG, dying, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
  while (kill((pid_t)word[1], 0) == 0) sched_yield(); /* outside of MPI, so that this process does not know of it yet */
  const int one = 1;
  int error = MPI_Put(&one, 1, MPI_INT, dying, (MPI_Aint)word[0], 1, MPI_INT, window);
  if (error == MPI_SUCCESS) error = MPI_Win_flush(dying, window);
  CHECK_EQ(class_of(error), MPI_ERR_PROC_ABORTED);
}

/* An exposure epoch ends with an error, but what ranks said in it counts in no later one. */
static void in_an_exposure(void) {
  const int first[] = {dying, 2}, second[] = {2, 3}, target = 0;
  const MPI_Win window = window_of(64);
  MPI_Group world, origins, targets;
  int word = 0, over = -1;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, 1, &target, &targets);
  if (rank == 0) {
    MPI_Group_incl(world, 2, first, &origins);
    CHECK(MPI_Win_post(origins, 0, window) == MPI_SUCCESS);
    CHECK(MPI_Recv(&word, 1, MPI_INT, 2, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS); /* 2 has completed */
  } else if (rank <= 2) {
    CHECK(MPI_Win_start(targets, 0, window) == MPI_SUCCESS);
  }
  if (rank == 2) {
    CHECK(MPI_Win_complete(window) == MPI_SUCCESS);
    MPI_Send(&word, 1, MPI_INT, 0, 11, MPI_COMM_WORLD);
  }
  if (rank == dying) {
    tell_the_others();
    raise(SIGKILL);
  }
  hear();
  if (rank == 0) {
    CHECK_EQ(class_of(MPI_Win_wait(window)), MPI_ERR_PROC_ABORTED);
    MPI_Group_incl(world, 2, second, &origins);
    CHECK(MPI_Win_post(origins, 0, window) == MPI_SUCCESS);
    CHECK(MPI_Recv(&word, 1, MPI_INT, 3, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS); /* 3 has completed */
    CHECK(MPI_Win_test(window, &over) == MPI_SUCCESS);
    CHECK_EQ(over, 0);
    MPI_Send(&word, 1, MPI_INT, 2, 12, MPI_COMM_WORLD);
    CHECK(MPI_Win_wait(window) == MPI_SUCCESS);
    return;
  }
  CHECK(MPI_Win_start(targets, 0, window) == MPI_SUCCESS);
  if (rank == 2) CHECK(MPI_Recv(&word, 1, MPI_INT, 0, 12, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
  CHECK(MPI_Win_complete(window) == MPI_SUCCESS);
  if (rank == 3) MPI_Send(&word, 1, MPI_INT, 0, 11, MPI_COMM_WORLD);
}

/* The ranks of a host meet in shared memory from the ninth fence on.  The fence ends in all ranks; rank 2 awaits the
 * dead rank itself, also where the ranks meet by messages. */
static void before_a_fence(void) {
  const MPI_Win window = window_of(64);
  for (int i = 0; i < 20; ++i) CHECK(MPI_Win_fence(0, window) == MPI_SUCCESS);
  if (rank == dying) {
    tell_the_others();
    raise(SIGKILL);
  }
  hear();
  const int error = MPI_Win_fence(0, window);
  if (rank == 2) CHECK_EQ(class_of(error), MPI_ERR_PROC_ABORTED);
}

/* Whatever a collective says to a rank, it ends in all of them. */
static void before_collectives(void) {
  enum { elements = 20000 };
  static double in[elements * 8], out[elements * 8];
  if (rank == dying) {
    tell_the_others();
    raise(SIGKILL);
  }
  hear();
  int failed = 0;
  for (int count = 1; count <= elements; count += elements - 1) {
    failed += MPI_Barrier(MPI_COMM_WORLD) != MPI_SUCCESS;
    for (int root = 0; root < size; ++root) {
      failed += MPI_Bcast(in, count, MPI_DOUBLE, root, MPI_COMM_WORLD) != MPI_SUCCESS;
      failed += MPI_Reduce(in, out, count, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD) != MPI_SUCCESS;
      failed += MPI_Gather(in, count, MPI_DOUBLE, out, count, MPI_DOUBLE, root, MPI_COMM_WORLD) != MPI_SUCCESS;
      failed += MPI_Scatter(in, count, MPI_DOUBLE, out, count, MPI_DOUBLE, root, MPI_COMM_WORLD) != MPI_SUCCESS;
    }
    failed += MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS;
    failed += MPI_Allgather(in, count, MPI_DOUBLE, out, count, MPI_DOUBLE, MPI_COMM_WORLD) != MPI_SUCCESS;
    failed += MPI_Alltoall(in, count, MPI_DOUBLE, out, count, MPI_DOUBLE, MPI_COMM_WORLD) != MPI_SUCCESS;
    failed += MPI_Scan(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS;
    failed += MPI_Reduce_scatter_block(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS;
  }
  CHECK(failed > 0);
}

static void before_finalize(void) {
  if (rank == dying) {
    tell_the_others();
    raise(SIGKILL);
  }
  hear();
  int word;
  CHECK_EQ(class_of(MPI_Recv(&word, 1, MPI_INT, dying, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)), MPI_ERR_PROC_ABORTED);
  end("before MPI_Finalize"); /* whose fence fails: the error is returned, or the job ends */
  MPI_Finalize();
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (rank == 0) printf("MPI_Finalize has returned: %d\n", finalized);
  fflush(stdout);
  _exit(0);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  rank = my_rank();
  size = world_size();
  CHECK(size >= 3 && argc > 1);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  const char* const where = argv[1];
  if (strcmp(where, "exclusive") == 0) with_a_lock(MPI_LOCK_EXCLUSIVE, 2);
  if (strcmp(where, "shared") == 0) with_a_lock(MPI_LOCK_SHARED, 2);
  if (strcmp(where, "own") == 0) with_a_lock(MPI_LOCK_EXCLUSIVE, dying);
  if (strcmp(where, "accumulate") == 0) in_an_accumulate();
  if (strcmp(where, "attach") == 0) in_an_attach();
  if (strcmp(where, "exposure") == 0) in_an_exposure();
  if (strcmp(where, "fence") == 0) before_a_fence();
  if (strcmp(where, "collectives") == 0) before_collectives();
  if (strcmp(where, "finalize") == 0) before_finalize();
  end(where);
  _exit(0); /* MPI_Finalize would say that a rank is gone */
}
