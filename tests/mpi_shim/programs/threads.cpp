// SPDX-License-Identifier: Apache-2.0
// MPI_THREAD_MULTIPLE: threads of two ranks exchange messages at once, each pair with a tag of its own; collectives on
// communicators of their own at the same time; accesses to windows beside messages.
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

/// All threads of all ranks count in the first rank's window, and write to places of their own in the last one's.
void count(MPI_Win win, int thread, int rank, int size) {
  const int one = 1;
  int before = -1;
  for (int i = 0; i < kMessages; ++i) {
    CHECK(MPI_Fetch_and_op(&one, &before, MPI_INT, 0, 0, MPI_SUM, win) == MPI_SUCCESS);
    CHECK(MPI_Win_flush(0, win) == MPI_SUCCESS);
    CHECK(before >= 0 && before < size * kThreads * kMessages);
    const int place = 1 + rank * kThreads + thread;
    CHECK(MPI_Put(&i, 1, MPI_INT, size - 1, place, 1, MPI_INT, win) == MPI_SUCCESS);
    CHECK(MPI_Win_flush(size - 1, win) == MPI_SUCCESS);
    int back = -1;
    CHECK(MPI_Get(&back, 1, MPI_INT, size - 1, place, 1, MPI_INT, win) == MPI_SUCCESS);
    CHECK(MPI_Win_flush(size - 1, win) == MPI_SUCCESS);
    CHECK_EQ(back, i);
  }
}

/// `win` has 1 + size * kThreads integers in each rank, all 0.
void count_with_threads(MPI_Win win, const int* memory, int rank, int size) {
  CHECK(MPI_Win_lock_all(0, win) == MPI_SUCCESS);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back([=] { count(win, i, rank, size); });
  for (int i = 0; i < kThreads; ++i) threads.emplace_back([=] { exchange(100 + i, rank, size); });
  for (std::thread& thread : threads) thread.join();
  CHECK(MPI_Win_unlock_all(win) == MPI_SUCCESS);
  CHECK(MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS);
  if (rank == 0) CHECK_EQ(memory[0], size * kThreads * kMessages);
  CHECK(MPI_Win_free(&win) == MPI_SUCCESS);
}

void windows(int rank, int size) {
  const std::size_t places = 1 + static_cast<std::size_t>(size) * kThreads;
  const auto bytes = static_cast<MPI_Aint>(places * sizeof(int));
  MPI_Win win = MPI_WIN_NULL;
  std::vector<int> own(places);
  MPI_Win_create(own.data(), bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  count_with_threads(win, own.data(), rank, size);
  int* memory = nullptr;
  MPI_Win_allocate(bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
  count_with_threads(win, memory, rank, size);
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
  windows(rank, size);
  MPI_Finalize();
  return 0;
}
