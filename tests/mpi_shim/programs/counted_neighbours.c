/* SPDX-License-Identifier: Apache-2.0
 * Every neighbourhood collective, blocking, non-blocking and persistent, with int and with MPI_Count arguments: on a
 * directed ring in which each rank sends to the next one and to the one after it. */
#include "tests/mpi_shim/programs/check.h"
#include "tests/mpi_shim/programs/counts.h"

enum { kBlock = 3 };
static int rank, size;
static int sources[2], destinations[2];
static MPI_Comm ring;

enum Form { kBlocking, kNonblocking, kPersistent, kForms };

#define RUN(form, lower, ...)                                                                        \
  do {                                                                                               \
    MPI_Request request = MPI_REQUEST_NULL;                                                          \
    if ((form) == kBlocking) {                                                                       \
      CHECK_EQ(COUNTED(Neighbor_##lower)(__VA_ARGS__), MPI_SUCCESS);                                 \
    } else if ((form) == kNonblocking) {                                                             \
      CHECK_EQ(COUNTED(Ineighbor_##lower)(__VA_ARGS__, &request), MPI_SUCCESS);                      \
      CHECK_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);                                  \
    } else {                                                                                         \
      CHECK_EQ(COUNTED(Neighbor_##lower##_init)(__VA_ARGS__, MPI_INFO_NULL, &request), MPI_SUCCESS); \
      for (int again = 0; again < 2; ++again) {                                                      \
        CHECK_EQ(MPI_Start(&request), MPI_SUCCESS);                                                  \
        CHECK_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);                                \
      }                                                                                              \
      CHECK_EQ(MPI_Request_free(&request), MPI_SUCCESS);                                             \
    }                                                                                                \
  } while (0)

/* Element i of the block that `from` sends over its edge `edge`. */
static int datum(int from, int edge, int i) { return from * 10000 + edge * 100 + i; }

/* Edge 0 of the one before me leads here, and edge 1 of the one before that. */
static void check_block(const int* block, int edge, int length, int same_for_all_edges) {
  for (int i = 0; i < length; ++i) CHECK_EQ(block[i], datum(sources[edge], same_for_all_edges ? 0 : edge, i));
}

static void clear(int* values, int n) {
  for (int i = 0; i < n; ++i) values[i] = -1;
}

static void gathers(enum Form form) {
  enum { kRoom = 4 * kBlock };
  int out[kBlock], in[kRoom];
  for (int i = 0; i < kBlock; ++i) out[i] = datum(rank, 0, i);
  clear(in, kRoom);
  RUN(form, allgather, out, kBlock, MPI_INT, in, kBlock, MPI_INT, ring);
  for (int e = 0; e < 2; ++e) check_block(in + e * kBlock, e, kBlock, 1);
  /* In the opposite order, with a gap. */
  const Count counts[] = {kBlock, kBlock};
  const BlockPlace places[] = {2 * kBlock, 0};
  clear(in, kRoom);
  RUN(form, allgatherv, out, kBlock, MPI_INT, in, counts, places, MPI_INT, ring);
  for (int e = 0; e < 2; ++e) check_block(in + places[e], e, kBlock, 1);
  for (int i = kBlock; i < 2 * kBlock; ++i) CHECK_EQ(in[i], -1);
}

static void exchanges(enum Form form) {
  enum { kRoom = 4 * kBlock };
  int out[kRoom], in[kRoom];
  for (int e = 0; e < 2; ++e) {
    for (int i = 0; i < kBlock; ++i) out[e * kBlock + i] = datum(rank, e, i);
  }
  clear(in, kRoom);
  RUN(form, alltoall, out, kBlock, MPI_INT, in, kBlock, MPI_INT, ring);
  for (int e = 0; e < 2; ++e) check_block(in + e * kBlock, e, kBlock, 0);

  const Count counts[] = {kBlock - 1, kBlock}; /* an edge carries as much as its number says, in all ranks */
  const BlockPlace out_places[] = {0, kBlock}, in_places[] = {2 * kBlock, 0};
  clear(in, kRoom);
  RUN(form, alltoallv, out, counts, out_places, MPI_INT, in, counts, in_places, MPI_INT, ring);
  for (int e = 0; e < 2; ++e) check_block(in + in_places[e], e, (int)counts[e], 0);
  CHECK_EQ(in[2 * kBlock + kBlock - 1], -1);

  const MPI_Aint out_bytes[] = {0, kBlock * sizeof(int)}, in_bytes[] = {2 * kBlock * sizeof(int), 0};
  const MPI_Datatype types[] = {MPI_INT, MPI_UNSIGNED};
  clear(in, kRoom);
  RUN(form, alltoallw, out, counts, out_bytes, types, in, counts, in_bytes, types, ring);
  for (int e = 0; e < 2; ++e) check_block(in + in_places[e], e, (int)counts[e], 0);
  CHECK_EQ(in[2 * kBlock + kBlock - 1], -1);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  rank = my_rank();
  size = world_size();
  for (int e = 0; e < 2; ++e) {
    destinations[e] = (rank + 1 + e) % size;
    sources[e] = (rank + 2 * size - 1 - e) % size;
  }
  CHECK_EQ(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, sources, MPI_UNWEIGHTED, 2, destinations, MPI_UNWEIGHTED,
                                          MPI_INFO_NULL, 0, &ring),
           MPI_SUCCESS);
  for (int form = 0; form < kForms; ++form) {
    gathers(form);
    exchanges(form);
  }
  MPI_Comm_free(&ring);
  MPI_Finalize();
  return 0;
}
