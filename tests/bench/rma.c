/* SPDX-License-Identifier: Apache-2.0 */
/* How long one-sided accesses take from rank 0 to rank 1, which waits in a barrier meanwhile (with fences: takes part
 * in them), or computes without calling MPI: each access with its synchronisation, for windows that MPI allocated and
 * for windows over memory of the program, and for streams of 64 accesses with one flush.  Batches of accesses; per
 * operation the median and the lowest batch:
 *   NAME,WINDOW,SYNCHRONISATION BYTES MEDIAN_US LOWEST_US
 * Built and run by tests/bench/compare rma for every MPI library it compares.
 *   rma LAST */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kBatches = 21, kStream = 64 };

static int rank;
static char *mine, *result;
static MPI_Win window;

static void do_put(int bytes) { MPI_Put(mine, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, window); }
static void do_get(int bytes) { MPI_Get(result, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, window); }
static void do_accumulate(int bytes) {
  MPI_Accumulate(mine, bytes / 8, MPI_INT64_T, 1, 0, bytes / 8, MPI_INT64_T, MPI_SUM, window);
}
static void do_get_accumulate(int bytes) {
  const int count = bytes / 8;
  MPI_Get_accumulate(mine, count, MPI_INT64_T, result, count, MPI_INT64_T, 1, 0, count, MPI_INT64_T, MPI_SUM, window);
}
static void do_fetch_and_op(int bytes) {
  (void)bytes;
  MPI_Fetch_and_op(mine, result, MPI_INT64_T, 1, 0, MPI_SUM, window);
}
static void do_compare_and_swap(int bytes) {
  (void)bytes;
  MPI_Compare_and_swap(mine, mine, result, MPI_INT32_T, 1, 0, window); /* of 8 bytes Open MPI 4.1.4 crashes */
}

static const struct {
  const char* name;
  void (*call)(int bytes);
  int largest; /* 0: any */
} kAccesses[] = {{"put", do_put, 0},
                 {"get", do_get, 0},
                 {"accumulate", do_accumulate, 0},
                 {"get_accumulate", do_get_accumulate, 0},
                 {"fetch_and_op", do_fetch_and_op, 8},
                 {"compare_and_swap", do_compare_and_swap, 8}};

/* An operation is one access with its synchronisation, or a stream of them. */
static void with_flush(void (*call)(int bytes), int bytes) {
  call(bytes);
  MPI_Win_flush(1, window);
}
static void with_lock(void (*call)(int bytes), int bytes) {
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, window);
  call(bytes);
  MPI_Win_unlock(1, window);
}
static void with_fence(void (*call)(int bytes), int bytes) {
  MPI_Win_fence(0, window);
  if (rank == 0) call(bytes);
  MPI_Win_fence(0, window);
}
static void in_stream(void (*call)(int bytes), int bytes) {
  for (int i = 0; i < kStream; ++i) call(bytes);
  MPI_Win_flush(1, window);
}

enum Target { waits, computes, takes_part };
static const struct {
  const char* name;
  void (*operation)(void (*call)(int bytes), int bytes);
  enum Target target;
  int accesses;
} kSynchronisations[] = {{"flush", with_flush, waits, 1},
                         {"flush_while_target_computes", with_flush, computes, 1},
                         {"lock", with_lock, waits, 1},
                         {"fence", with_fence, takes_part, 1},
                         {"stream", in_stream, waits, kStream}};

static int compare_doubles(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return x < y ? -1 : x > y;
}

/* What the ranks tell each other through shared memory.  Rank 0 measures when rank 1 computes: a call of rank 0 before
 * that, such as MPI_Win_lock or the end of a barrier, may need rank 1 inside MPI. */
enum Step { begins, rank_0_is_ready, rank_1_computes, rank_0_is_done };

/* For at most 5 ms: a library whose accesses need the target's help would wait for ever. */
static void compute_until_done(volatile int* step) {
  while (*step != rank_0_is_ready) {
    int flag;
    MPI_Iprobe(0, 0, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
  }
  *step = rank_1_computes;
  volatile double sum = 0;
  for (const double end = MPI_Wtime() + 0.005; *step != rank_0_is_done && MPI_Wtime() < end;) {
    for (int i = 1; i < 1000; ++i) sum += 1.0 / i;
  }
}

/* Rank 1's part of what is not a fence. */
static void be_target(enum Target target, volatile int* step) {
  if (target == computes) compute_until_done(step);
  MPI_Barrier(MPI_COMM_WORLD);
}

static void measure(const char* kind, int access, int how, int bytes, volatile int* step) {
  void (*const call)(int) = kAccesses[access].call;
  void (*const operation)(void (*)(int), int) = kSynchronisations[how].operation;
  const enum Target target = kSynchronisations[how].target;
  const int accesses = kSynchronisations[how].accesses;
  int rounds = (bytes <= 4096 ? 1000 : bytes <= 65536 ? 100 : 10) / accesses;
  if (rounds == 0) rounds = 1;
  double times[kBatches];
  for (int batch = -1; batch < kBatches; ++batch) {
    if (rank == 1) *step = begins;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1 && target != takes_part) {
      be_target(target, step);
      continue;
    }
    const int locked = rank == 0 && operation != with_lock && target != takes_part;
    if (locked) MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, window);
    if (rank == 0 && target == computes) {
      *step = rank_0_is_ready;
      while (*step != rank_1_computes) {
      }
    }
    const double begin = MPI_Wtime();
    for (int i = 0; i < rounds; ++i) operation(call, bytes);
    if (batch >= 0) times[batch] = (MPI_Wtime() - begin) / rounds / accesses * 1e6;
    if (locked) MPI_Win_unlock(1, window);
    if (rank == 0) *step = rank_0_is_done;
    MPI_Barrier(MPI_COMM_WORLD);
  }
  if (rank != 0) return;
  qsort(times, kBatches, sizeof times[0], compare_doubles);
  printf("%s,%s,%s %d %.4f %.4f\n", kAccesses[access].name, kind, kSynchronisations[how].name, bytes,
         times[kBatches / 2], times[0]);
  fflush(stdout);
}

static void measure_all(const char* kind, int last, volatile int* step) {
  for (int how = 0; how < (int)(sizeof kSynchronisations / sizeof kSynchronisations[0]); ++how) {
    for (int access = 0; access < (int)(sizeof kAccesses / sizeof kAccesses[0]); ++access) {
      const int largest = kAccesses[access].largest;
      for (int bytes = 8; bytes <= last && (largest == 0 || bytes <= largest); bytes *= 8) {
        measure(kind, access, how, bytes, step);
      }
    }
  }
}

int main(int argc, char** argv) {
  const int last = argc > 1 ? atoi(argv[1]) : 1 << 20;
  MPI_Init(&argc, &argv);
  int size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size != 2) {
    if (rank == 0) fprintf(stderr, "rma: needs 2 ranks, has %d\n", size);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  mine = malloc((size_t)last);
  result = malloc((size_t)last);
  char* const exposed = malloc((size_t)last);
  memset(mine, 0, (size_t)last); /* sums stay 0 */
  memset(result, 0, (size_t)last);
  memset(exposed, 0, (size_t)last);

  /* The word of Step. */
  MPI_Win signal;
  int* word;
  MPI_Win_allocate_shared(rank == 1 ? (MPI_Aint)sizeof(int) : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &word, &signal);
  if (rank == 0) {
    MPI_Aint bytes;
    int unit;
    MPI_Win_shared_query(signal, 1, &bytes, &unit, &word);
  }

  char* base;
  MPI_Win_allocate(last, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
  memset(base, 0, (size_t)last);
  MPI_Barrier(MPI_COMM_WORLD);
  measure_all("allocated", last, word);
  MPI_Win_free(&window);

  MPI_Win_create(exposed, last, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  measure_all("created", last, word);
  MPI_Win_free(&window);
  MPI_Win_free(&signal);
  free(exposed);
  free(result);
  free(mine);
  MPI_Finalize();
  return 0;
}
