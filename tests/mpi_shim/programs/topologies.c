/* SPDX-License-Identifier: Apache-2.0
 * Graphs, distributed graphs, and neighbourhood collectives on them and on grids; communicators of groups. */
#include <string.h>

#include "tests/mpi_shim/programs/check.h"

enum { most = 64 };
static int rank, size;

/* A ring as a graph: each rank's neighbours are the one before and the one after. */
static void graph(void) {
  int index[most], edges[2 * most];
  for (int i = 0; i < size; ++i) {
    index[i] = 2 * (i + 1);
    edges[2 * i] = (i + size - 1) % size;
    edges[2 * i + 1] = (i + 1) % size;
  }
  MPI_Comm ring;
  MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 0, &ring);
  int kind = -1, nodes = -1, count = -1, found[2] = {-1, -1};
  MPI_Topo_test(ring, &kind);
  CHECK_EQ(kind, MPI_GRAPH);
  MPI_Graphdims_get(ring, &nodes, &count);
  CHECK(nodes == size && count == 2 * size);
  int got_index[most], got_edges[2 * most];
  MPI_Graph_get(ring, most, 2 * most, got_index, got_edges);
  CHECK(memcmp(index, got_index, sizeof(int) * (size_t)size) == 0);
  CHECK(memcmp(edges, got_edges, 2 * sizeof(int) * (size_t)size) == 0);
  MPI_Graph_neighbors_count(ring, rank, &count);
  CHECK_EQ(count, 2);
  MPI_Graph_neighbors(ring, rank, 2, found);
  CHECK(found[0] == edges[2 * rank] && found[1] == edges[2 * rank + 1]);
  MPI_Comm copy;
  MPI_Comm_dup(ring, &copy);
  MPI_Topo_test(copy, &kind);
  CHECK_EQ(kind, MPI_GRAPH);
  MPI_Neighbor_allgather(&rank, 1, MPI_INT, found, 1, MPI_INT, copy);
  CHECK(found[0] == edges[2 * rank] && found[1] == edges[2 * rank + 1]);
  MPI_Comm_free(&copy);
  MPI_Comm_free(&ring);
  /* Fewer nodes than processes. */
  int none[1] = {0};
  MPI_Comm one;
  MPI_Graph_create(MPI_COMM_WORLD, 1, none, edges, 0, &one);
  CHECK((one == MPI_COMM_NULL) == (rank != 0));
  if (one != MPI_COMM_NULL) MPI_Comm_free(&one);
}

/* Rank r sends to r+1 ... r+degree; all edges are named by rank 0, or each by its source. */
static void distributed_graph(int named_by_one) {
  const int degree = size < 3 ? size : 3;
  int sources[most], degrees[most], destinations[3 * most], weights[3 * most], n = 0;
  for (int node = 0; node < size; ++node) {
    if (named_by_one ? rank != 0 : node != rank) continue;
    sources[n] = node;
    degrees[n] = degree;
    for (int i = 0; i < degree; ++i) {
      destinations[n * degree + i] = (node + 1 + i) % size;
      weights[n * degree + i] = node * 10 + i;
    }
    ++n;
  }
  MPI_Comm comm;
  MPI_Dist_graph_create(MPI_COMM_WORLD, n, sources, degrees, destinations, weights, MPI_INFO_NULL, 0, &comm);
  int in = -1, out = -1, weighted = -1;
  MPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted);
  CHECK(in == degree && out == degree && weighted == 1);
  int from[3], from_weights[3], to[3], to_weights[3];
  MPI_Dist_graph_neighbors(comm, in, from, from_weights, out, to, to_weights);
  for (int i = 0; i < degree; ++i) {
    CHECK_EQ(to[i], (rank + 1 + i) % size);
    CHECK_EQ(to_weights[i], rank * 10 + i);
    const int distance = (rank - from[i] + size - 1) % size; /* of this edge in its source's list */
    CHECK_EQ(from_weights[i], from[i] * 10 + distance);
  }
  /* A block for each, and what came must have been meant for me. */
  int blocks[3], got[3];
  for (int i = 0; i < degree; ++i) blocks[i] = rank * 1000 + to[i];
  MPI_Neighbor_alltoall(blocks, 1, MPI_INT, got, 1, MPI_INT, comm);
  for (int i = 0; i < degree; ++i) CHECK_EQ(got[i], from[i] * 1000 + rank);
  MPI_Comm_free(&comm);
}

static void adjacent_graph(void) {
  /* A star: every rank sends to rank 0 twice, over two edges; blocks keep the order of the edges. */
  int zeros[2] = {0, 0}, sources[2 * most];
  for (int i = 0; i < size; ++i) sources[2 * i] = sources[2 * i + 1] = i;
  MPI_Comm star;
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, rank == 0 ? 2 * size : 0, sources,
                                 rank == 0 ? MPI_UNWEIGHTED : MPI_WEIGHTS_EMPTY, 2, zeros, MPI_UNWEIGHTED,
                                 MPI_INFO_NULL, 0, &star);
  int kind = -1;
  MPI_Topo_test(star, &kind);
  CHECK_EQ(kind, MPI_DIST_GRAPH);
  int blocks[2] = {rank, -rank - 1}, got[2 * most];
  int send_counts[2] = {1, 1}, send_displs[2] = {0, 1}, counts[2 * most], displs[2 * most];
  for (int i = 0; i < 2 * size; ++i) {
    counts[i] = 1;
    displs[i] = 2 * size - 1 - i;
  }
  MPI_Request request;
  MPI_Ineighbor_alltoallv(blocks, send_counts, send_displs, MPI_INT, got, counts, displs, MPI_INT, star, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (int i = 0; rank == 0 && i < size; ++i) {
    CHECK_EQ(got[2 * size - 1 - 2 * i], i);
    CHECK_EQ(got[2 * size - 2 - 2 * i], -i - 1);
  }
  MPI_Comm_free(&star);
}

/* On periodic dimensions of one or two processes both directions lead to the same process: each block must still come
 * from the right side. */
static void grid(int periodic) {
  int dims[2] = {0, 0}, periods[2] = {periodic, periodic}, coords[2];
  MPI_Dims_create(size, 2, dims);
  int box[3] = {0, 0, 0};
  MPI_Dims_create(5040, 3, box); /* 20 x 18 x 14 is as wide, but thinner */
  CHECK(box[0] == 21 && box[1] == 16 && box[2] == 15);
  MPI_Comm cart;
  MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &cart);
  MPI_Cart_coords(cart, rank, 2, coords);
  int neighbours[4], out[4], in[4] = {-1, -1, -1, -1};
  for (int d = 0; d < 2; ++d) MPI_Cart_shift(cart, d, 1, &neighbours[2 * d], &neighbours[2 * d + 1]);
  for (int i = 0; i < 4; ++i) out[i] = rank * 10 + i;
  MPI_Request request;
  MPI_Neighbor_alltoall_init(out, 1, MPI_INT, in, 1, MPI_INT, cart, MPI_INFO_NULL, &request);
  for (int round = 0; round < 2; ++round) {
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    /* The block from the negative side is the one that was sent in the positive direction. */
    for (int i = 0; i < 4; ++i) CHECK_EQ(in[i], neighbours[i] == MPI_PROC_NULL ? -1 : neighbours[i] * 10 + (i ^ 1));
  }
  MPI_Request_free(&request);
  MPI_Aint displs[4];
  MPI_Datatype types[4];
  int counts[4];
  for (int i = 0; i < 4; ++i) {
    displs[i] = (MPI_Aint)sizeof(int) * (3 - i);
    types[i] = MPI_INT;
    counts[i] = 1;
    in[i] = -1;
  }
  MPI_Neighbor_alltoallw(out, counts, displs, types, in, counts, displs, types, cart);
  for (int i = 0; i < 4; ++i) {
    CHECK_EQ(in[3 - i], neighbours[i] == MPI_PROC_NULL ? -1 : neighbours[i] * 10 + 3 - (i ^ 1));
  }
  MPI_Comm_free(&cart);
}

static void groups_alone(void) {
  MPI_Group world, low;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  int range[1][3] = {{0, size / 2, 1}};
  MPI_Group_range_incl(world, 1, range, &low);
  if (rank <= size / 2) { /* the others do not call */
    for (int round = 0; round < 3; ++round) {
      MPI_Comm comm;
      MPI_Comm_create_group(MPI_COMM_WORLD, low, 9, &comm);
      int sum = 0;
      const int one = 1;
      MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
      CHECK_EQ(sum, size / 2 + 1);
      MPI_Comm_free(&comm);
    }
  }
  MPI_Group_free(&low);
  MPI_Group_free(&world);
}

static int copies, deletions;
static int count_copy(MPI_Comm comm, int key, void* extra, void* value, void* out, int* flag) {
  (void)comm, (void)key, (void)extra;
  *(void**)out = value;
  *flag = 1;
  ++copies;
  return MPI_SUCCESS;
}
static int count_delete(MPI_Comm comm, int key, void* value, void* extra) {
  (void)comm, (void)key, (void)value, (void)extra;
  ++deletions;
  return MPI_SUCCESS;
}

static void duplicating_goes_on_behind_other_work(void) {
  MPI_Comm copies_of_world[4];
  MPI_Request requests[4];
  int key = MPI_KEYVAL_INVALID, flag = 0;
  void* value = NULL;
  MPI_Comm_create_keyval(count_copy, count_delete, &key, NULL);
  MPI_Comm parent;
  MPI_Comm_dup(MPI_COMM_WORLD, &parent);
  MPI_Comm_set_attr(parent, key, &rank);
  MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN);
  for (int i = 0; i < 4; ++i) MPI_Comm_idup(parent, &copies_of_world[i], &requests[i]);
  MPI_Comm_set_errhandler(parent, MPI_ERRORS_ARE_FATAL); /* the copies keep that of the call */
  CHECK_EQ(copies, 4);
  int sum = 0;
  const int one = 1;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, parent);
  CHECK_EQ(sum, size);
  MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < 4; ++i) {
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, copies_of_world[i]);
    CHECK_EQ(sum, size);
    MPI_Comm_get_attr(copies_of_world[i], key, &value, &flag);
    CHECK(flag == 1 && value == &rank);
    MPI_Errhandler handler;
    MPI_Comm_get_errhandler(copies_of_world[i], &handler);
    CHECK(handler == MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&copies_of_world[i]);
  }
  MPI_Comm_free(&parent);
  CHECK_EQ(deletions, 5);
  MPI_Comm_free_keyval(&key);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  rank = my_rank();
  size = world_size();
  graph();
  distributed_graph(0);
  distributed_graph(1);
  adjacent_graph();
  grid(0);
  grid(1);
  groups_alone();
  duplicating_goes_on_behind_other_work();
  MPI_Finalize();
  return 0;
}
