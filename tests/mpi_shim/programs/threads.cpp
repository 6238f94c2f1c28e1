// SPDX-License-Identifier: Apache-2.0
// MPI_THREAD_MULTIPLE: threads of two ranks exchange messages at once, each pair with a tag of its own; collectives on
// communicators of their own at the same time.
#include <thread>
#include <vector>

#include "tests/mpi_shim/programs/check.h"

namespace {

constexpr int kThreads = 4;
constexpr int kMessages = 300;

void exchange(int thread, int rank, int size) {
  const int next = (rank + 1) % size;
  const int previous = (rank + size - 1) % size;
  std::vector<int> out(20000);
  std::vector<int> in(20000);
  for (int i = 0; i < kMessages; ++i) {
    const int count = i % 50 == 0 ? 20000 : 1 + i % 7;
    for (int k = 0; k < count; ++k) out[static_cast<std::size_t>(k)] = rank * 1000 + thread * 100 + i + k;
    MPI_Status status;
    CHECK(MPI_Sendrecv(out.data(), count, MPI_INT, next, thread, in.data(), 20000, MPI_INT, previous, thread,
                       MPI_COMM_WORLD, &status) == MPI_SUCCESS);
    int received = 0;
    MPI_Get_count(&status, MPI_INT, &received);
    CHECK_EQ(received, count);
    for (int k = 0; k < count; ++k) CHECK_EQ(in[static_cast<std::size_t>(k)], previous * 1000 + thread * 100 + i + k);
  }
}

void reduce(MPI_Comm comm, int thread, int size) {
  for (int i = 0; i < kMessages; ++i) {
    int mine = i + thread;
    int sum = 0;
    CHECK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS);
    CHECK_EQ(sum, size * (i + thread));
  }
}

}  // namespace

int main(int argc, char** argv) {
  int provided = -1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
  const int rank = my_rank();
  const int size = world_size();
  MPI_Comm comms[2];
  for (MPI_Comm& comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(exchange, i, rank, size);
  for (int i = 0; i < 2; ++i) threads.emplace_back(reduce, comms[i], i, size);
  for (std::thread& thread : threads) thread.join();
  for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
  MPI_Finalize();
  return 0;
}
