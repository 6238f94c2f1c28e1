/* SPDX-License-Identifier: Apache-2.0
 * Blocking collectives in shared memory, as one is never alone: thousands of them one after the other without anything
 * in between, of random kinds, sizes and roots, on two communicators by turns; ranks that come late, so that the others
 * sleep; and messages that must move while their sender is in a collective. */
#include <string.h>
#include <time.h>

#include "tests/mpi_shim/programs/check.h"

enum { kMost = 70000, kMostBlock = 9000 };

static int rank, size;
static unsigned long long seed = 1234567890123456789ULL;
static int draw(int below) { /* the same numbers in all ranks */
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return (int)(seed % (unsigned)below);
}

/* Mostly short, sometimes several pieces long. */
static int draw_length(int most) { return draw(8) == 0 ? draw(most) : draw(4) == 0 ? draw(3000) : draw(40); }

static unsigned char *out, *in;

static void do_bcast(MPI_Comm comm, int round) {
  const int length = draw_length(kMost), root = draw(size);
  for (int i = 0; i < length; ++i) out[i] = rank == root ? pattern(i, round) : 0;
  CHECK(MPI_Bcast(out, length, MPI_CHAR, root, comm) == MPI_SUCCESS);
  for (int i = 0; i < length; ++i) CHECK_EQ(out[i], pattern(i, round));
}

/* An operation that does not commute and to whose result every operand adds, on ints: maps x -> a x + b modulo a prime,
 * one after the other. */
enum { kPrime = 251 };
static int compose(int left, int right) {
  const int a = left % kPrime, b = left / kPrime;
  return a * (right % kPrime) % kPrime + kPrime * ((a * (right / kPrime) + b) % kPrime);
}
static void composed(void* left, void* right, int* length, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *length; ++i) ((int*)right)[i] = compose(((const int*)left)[i], ((int*)right)[i]);
}
static int operand(int of, int index, int round) {
  return 1 + (of * 7 + index * 3 + round) % (kPrime - 1) + kPrime * ((of * 31 + index * 5 + round * 11) % kPrime);
}
/* Of the ranks below `end`, at least one. */
static int result_below(int end, int index, int round, int sums) {
  int result = operand(0, index, round);
  for (int of = 1; of < end; ++of) {
    result = sums ? result + operand(of, index, round) : compose(result, operand(of, index, round));
  }
  return result;
}

static void do_reductions(MPI_Comm comm, MPI_Op op, int round) {
  const int count = draw_length(kMost / 4), root = draw(size), everywhere = draw(2), in_place = draw(2), sums = draw(2);
  int *mine = (int*)out, *result = (int*)in;
  const int gets = everywhere || rank == root;
  for (int i = 0; i < count; ++i) mine[i] = operand(rank, i, round);
  const void* from = mine;
  if (in_place && gets) {
    memcpy(result, mine, (size_t)count * sizeof *mine);
    from = MPI_IN_PLACE;
  }
  if (everywhere) {
    CHECK(MPI_Allreduce(from, result, count, MPI_INT, sums ? MPI_SUM : op, comm) == MPI_SUCCESS);
  } else {
    CHECK(MPI_Reduce(from, result, count, MPI_INT, sums ? MPI_SUM : op, root, comm) == MPI_SUCCESS);
  }
  for (int i = 0; gets && i < count; ++i) {
    CHECK_EQ(result[i], result_below(size, i, round, sums));
  }
}

static void do_scans(MPI_Comm comm, MPI_Op op, int round) {
  const int count = draw_length(kMost / 4), exclusive = draw(2), in_place = draw(2), sums = draw(2);
  int *mine = (int*)out, *result = (int*)in;
  for (int i = 0; i < count; ++i) mine[i] = operand(rank, i, round), result[i] = in_place ? mine[i] : -1;
  const void* from = in_place ? MPI_IN_PLACE : mine;
  CHECK((exclusive ? MPI_Exscan : MPI_Scan)(from, result, count, MPI_INT, sums ? MPI_SUM : op, comm) == MPI_SUCCESS);
  for (int i = 0; i < count; ++i) {
    if (exclusive && rank == 0) {
      CHECK_EQ(result[i], in_place ? mine[i] : -1);
    } else {
      CHECK_EQ(result[i], result_below(exclusive ? rank : rank + 1, i, round, sums));
    }
  }
}

/* Parts of different sizes, some empty. */
static void do_reduce_scatter(MPI_Comm comm, MPI_Op op, int round) {
  const int length = draw_length(kMostBlock / 4), even = draw(2), in_place = draw(2), sums = draw(2);
  int *lengths = malloc((size_t)size * sizeof *lengths), start = 0, total = 0;
  for (int of = 0; of < size; ++of) {
    lengths[of] = even ? length : (of + round) % 3 == 0 ? 0 : length - length * of / size / 2;
    if (of < rank) start += lengths[of];
    total += lengths[of];
  }
  int *mine = (int*)out, *result = (int*)in;
  for (int i = 0; i < total; ++i) mine[i] = operand(rank, i, round), result[i] = in_place ? mine[i] : -1;
  const void* from = in_place ? MPI_IN_PLACE : mine;
  if (even) {
    CHECK(MPI_Reduce_scatter_block(from, result, length, MPI_INT, sums ? MPI_SUM : op, comm) == MPI_SUCCESS);
  } else {
    CHECK(MPI_Reduce_scatter(from, result, lengths, MPI_INT, sums ? MPI_SUM : op, comm) == MPI_SUCCESS);
  }
  for (int i = 0; i < lengths[rank]; ++i) CHECK_EQ(result[i], result_below(size, start + i, round, sums));
  free(lengths);
}

static void do_blocks(MPI_Comm comm, int round) {
  const int kind = draw(4), length = draw_length(kMostBlock), root = draw(size);
  for (int to = 0; to < size; ++to) {
    for (int i = 0; i < length; ++i) out[to * length + i] = pattern(i, round + 31 * rank + (kind >= 2 ? 7 * to : 0));
  }
  memset(in, 0, (size_t)(length * size));
  if (kind == 0) CHECK(MPI_Gather(out, length, MPI_CHAR, in, length, MPI_CHAR, root, comm) == MPI_SUCCESS);
  if (kind == 1) CHECK(MPI_Allgather(out, length, MPI_CHAR, in, length, MPI_CHAR, comm) == MPI_SUCCESS);
  if (kind == 2) CHECK(MPI_Alltoall(out, length, MPI_CHAR, in, length, MPI_CHAR, comm) == MPI_SUCCESS);
  if (kind == 3) CHECK(MPI_Scatter(out, length, MPI_CHAR, in, length, MPI_CHAR, root, comm) == MPI_SUCCESS);
  if (kind == 0 && rank != root) return;
  for (int from = 0; from < (kind == 3 ? 1 : size); ++from) {
    const int source = kind == 3 ? root : from;
    for (int i = 0; i < length; ++i)
      CHECK_EQ(in[from * length + i], pattern(i, round + 31 * source + (kind >= 2 ? 7 * rank : 0)));
  }
}

/* Blocks of different sizes, some empty, not in the order of the ranks, with gaps; sometimes in place. */
static void do_uneven_blocks(MPI_Comm comm, int round) {
  const int length = draw_length(kMostBlock / 2), in_place = draw(2);
  int *lengths = malloc((size_t)size * sizeof *lengths), *places = malloc((size_t)size * sizeof *places);
  int end = 3;
  for (int of = size - 1; of >= 0; --of) {
    lengths[of] = (of + round) % 3 == 0 ? 0 : length + of;
    places[of] = end;
    end += lengths[of] + 5;
  }
  memset(in, 0xee, (size_t)end);
  unsigned char* const mine = in_place ? in + places[rank] : out;
  for (int i = 0; i < lengths[rank]; ++i) mine[i] = pattern(i, round + 31 * rank);
  CHECK(MPI_Allgatherv(in_place ? MPI_IN_PLACE : mine, lengths[rank], MPI_CHAR, in, lengths, places, MPI_CHAR, comm) ==
        MPI_SUCCESS);
  for (int of = 0; of < size; ++of) {
    for (int i = 0; i < lengths[of]; ++i) CHECK_EQ(in[places[of] + i], pattern(i, round + 31 * of));
    CHECK_EQ(in[places[of] - 1], 0xee);
  }
  free(lengths);
  free(places);
}

/* Blocks of which only two ranks know the size: some empty, some longer than a slot, with gaps.  Symmetric ones may be
 * exchanged in place. */
static int base_length, has_long, symmetric;
static int length_of(int from, int to, int round) {
  const int first = symmetric && from > to ? to : from, second = symmetric && from > to ? from : to;
  if ((first + second + round) % 3 == 0) return 0;
  if (has_long && (first + second) % size == round % size) return 40000;
  return base_length + (first * 7 + second * 13 + round) % 17;
}
static unsigned char* place_blocks(unsigned char* buffer, int to_others, int round, int* lengths, int* places) {
  int end = 3;
  for (int other = size - 1; other >= 0; --other) {
    lengths[other] = to_others ? length_of(rank, other, round) : length_of(other, rank, round);
    places[other] = end;
    end += lengths[other] + 5;
  }
  memset(buffer, 0xee, (size_t)end);
  return buffer;
}
static void fill_block(unsigned char* block, int from, int to, int round) {
  for (int i = 0; i < length_of(from, to, round); ++i) block[i] = pattern(i, round + 31 * from + 7 * to);
}
static void check_block(const unsigned char* block, int from, int to, int round) {
  const int length = length_of(from, to, round);
  for (int i = 0; i < length; ++i) CHECK_EQ(block[i], pattern(i, round + 31 * from + 7 * to));
  CHECK_EQ(block[-1], 0xee);
  CHECK_EQ(block[length], 0xee);
}

static void do_pairs(MPI_Comm comm, int round) {
  const int kind = draw(5), in_place = draw(2), root = draw(size);
  base_length = draw_length(kMostBlock - 64);
  has_long = draw(4) == 0;
  symmetric = kind == 3;
  int *out_lengths = malloc((size_t)size * 4 * sizeof(int)), *out_places = out_lengths + size;
  int *in_lengths = out_places + size, *in_places = in_lengths + size;
  place_blocks(out, 1, round, out_lengths, out_places);
  place_blocks(in, 0, round, in_lengths, in_places);
  unsigned char* const from = kind == 3 ? in : out; /* alltoallv in place */
  const int* const from_places = kind == 3 ? in_places : out_places;
  for (int to = 0; to < size; ++to) fill_block(from + from_places[to], rank, to, round);
  const int own = in_place && rank == root; /* of gatherv and scatterv */
  const int to_root = length_of(rank, root, round), from_root = length_of(root, rank, round);
  if (kind == 0) {
    if (own) fill_block(in + in_places[rank], rank, rank, round);
    CHECK(MPI_Gatherv(own ? MPI_IN_PLACE : out + out_places[root], to_root, MPI_CHAR, in, in_lengths, in_places,
                      MPI_CHAR, root, comm) == MPI_SUCCESS);
  } else if (kind == 1) {
    CHECK(MPI_Scatterv(out, out_lengths, out_places, MPI_CHAR, own ? MPI_IN_PLACE : in + in_places[root], from_root,
                       MPI_CHAR, root, comm) == MPI_SUCCESS);
    if (!own) check_block(in + in_places[root], root, rank, round);
  } else if (kind == 4) {
    MPI_Datatype* types = malloc((size_t)size * sizeof *types);
    for (int of = 0; of < size; ++of) types[of] = MPI_CHAR;
    CHECK(MPI_Alltoallw(out, out_lengths, out_places, types, in, in_lengths, in_places, types, comm) == MPI_SUCCESS);
    free(types);
  } else {
    CHECK(MPI_Alltoallv(kind == 3 ? MPI_IN_PLACE : out, out_lengths, out_places, MPI_CHAR, in, in_lengths, in_places,
                        MPI_CHAR, comm) == MPI_SUCCESS);
  }
  for (int of = 0; of < size && kind != 1 && (kind != 0 || rank == root); ++of)
    check_block(in + in_places[of], of, rank, round);
  free(out_lengths);
}

static void storm(MPI_Comm first, MPI_Comm second, MPI_Op op) {
  for (int round = 0; round < 1500; ++round) {
    const MPI_Comm comm = draw(3) == 0 ? second : first;
    switch (draw(8)) {
      case 0: do_bcast(comm, round); break;
      case 1: do_reductions(comm, op, round); break;
      case 2: do_blocks(comm, round); break;
      case 3: do_uneven_blocks(comm, round); break;
      case 4: do_scans(comm, op, round); break;
      case 5: do_reduce_scatter(comm, op, round); break;
      case 6: do_pairs(comm, round); break;
      default: CHECK(MPI_Barrier(comm) == MPI_SUCCESS);
    }
  }
}

/* By turns one rank comes so late that all others have gone to sleep; nothing here depends on whether they have. */
static void latecomers(MPI_Comm comm) {
  for (int round = 0; round < 40; ++round) {
    if (rank == round % size) {
      const struct timespec nap = {0, 2000000};
      nanosleep(&nap, NULL);
    }
    const int kind = round / size % 3;
    int word = rank == 0 ? round : -1, sum = 0;
    if (kind == 0) CHECK(MPI_Barrier(comm) == MPI_SUCCESS);
    if (kind == 1) CHECK(MPI_Bcast(&word, 1, MPI_INT, 0, comm) == MPI_SUCCESS);
    if (kind == 1) CHECK_EQ(word, round);
    if (kind == 2) CHECK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS);
    if (kind == 2) CHECK_EQ(sum, size * (size - 1) / 2);
  }
}

/* A large message whose receiver comes to the collective last: its sender has to move it from inside. */
static void messages_move(MPI_Comm comm) {
  if (size == 1) return;
  const int length = 3 << 20;
  unsigned char* large = malloc((size_t)length);
  for (int round = 0; round < 5; ++round) {
    if (rank == 1) {
      for (int i = 0; i < length; ++i) large[i] = pattern(i, round);
      MPI_Request request;
      MPI_Isend(large, length, MPI_CHAR, 0, 9, comm, &request);
      MPI_Barrier(comm);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
      if (rank == 0) {
        MPI_Recv(large, length, MPI_CHAR, 1, 9, comm, MPI_STATUS_IGNORE);
        for (int i = 0; i < length; ++i) CHECK_EQ(large[i], pattern(i, round));
      }
      MPI_Barrier(comm);
    }
  }
  free(large);
}

/* A block that is longer than what its receiver has room for: an error there (others may hear of it), nothing beyond
 * the room is written, and what comes after it works. */
static void too_long(int length) {
  enum { kRoomFor = 3 };
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  int* const counts = calloc((size_t)size * 4, sizeof *counts);
  int *places = counts + size, *in_counts = counts + 2 * size, *in_places = counts + 3 * size;
  for (int round = 0; round < 12; ++round) { /* by messages, then in shared memory */
    const int from = round % size, to = (round + 1) % size;
    memset(counts, 0, (size_t)size * 4 * sizeof *counts);
    if (rank == from) counts[to] = length;
    if (rank == to) in_counts[from] = length - kRoomFor, in_places[from] = 1;
    for (int i = 0; i < length; ++i) out[i] = pattern(i, round), in[i + 1] = 0xee;
    const int error = MPI_Alltoallv(out, counts, places, MPI_CHAR, in, in_counts, in_places, MPI_CHAR, comm);
    int class = MPI_SUCCESS;
    MPI_Error_class(error, &class);
    if (rank == to) CHECK_EQ(class, MPI_ERR_TRUNCATE);
    for (int i = length - kRoomFor; rank == to && i < length; ++i) CHECK_EQ(in[i + 1], 0xee);
    int sum = 0;
    CHECK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS);
    CHECK_EQ(sum, size * (size - 1) / 2);
  }
  free(counts);
  MPI_Comm_free(&comm);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  rank = my_rank();
  size = world_size();
  out = malloc((size_t)kMost + (size_t)size * kMostBlock + 64);
  in = malloc((size_t)kMost + (size_t)size * kMostBlock + 64);
  MPI_Op op;
  MPI_Op_create(composed, 0, &op);
  MPI_Comm second;
  MPI_Comm_dup(MPI_COMM_WORLD, &second);
  storm(MPI_COMM_WORLD, second, op);
  latecomers(MPI_COMM_WORLD);
  messages_move(second);
  if (size > 1) too_long(20);
  if (size > 1) too_long(40000);
  MPI_Comm_free(&second);
  MPI_Op_free(&op);
  free(out);
  free(in);
  MPI_Finalize();
  return 0;
}
