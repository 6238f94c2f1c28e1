// SPDX-License-Identifier: Apache-2.0
// MPI_THREAD_MULTIPLE: threads of two ranks exchange messages at once, each pair with a tag of its own; collectives on
// communicators of their own at the same time; accesses to windows beside messages; threads that compete for what they
// have probed.
#include <algorithm>
#include <atomic>
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

/// Collectives of several kinds, short and of many pieces, one after the other on a communicator of the thread's own.
void collect(MPI_Comm comm, int thread, int rank, int size) {
  std::vector<int> blocks(static_cast<std::size_t>(size));
  std::vector<int> large(30000);
  for (int i = 0; i < kMessages; ++i) {
    int mine = i + thread;
    int sum = 0;
    CHECK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS);
    CHECK_EQ(sum, size * (i + thread));
    mine = rank * kMessages + i;
    CHECK(MPI_Allgather(&mine, 1, MPI_INT, blocks.data(), 1, MPI_INT, comm) == MPI_SUCCESS);
    for (int of = 0; of < size; ++of) CHECK_EQ(blocks[static_cast<std::size_t>(of)], of * kMessages + i);
    if (i % 20 != 0) continue;
    const int root = i / 20 % size;
    for (std::size_t k = 0; k < large.size(); ++k) large[k] = rank == root ? thread * i + static_cast<int>(k) : -1;
    CHECK(MPI_Bcast(large.data(), static_cast<int>(large.size()), MPI_INT, root, comm) == MPI_SUCCESS);
    for (std::size_t k = 0; k < large.size(); ++k) CHECK_EQ(large[k], thread * i + static_cast<int>(k));
    CHECK(MPI_Barrier(comm) == MPI_SUCCESS);
  }
}

/// Each thread sends messages of many lengths to the next rank, and takes as many from the previous one, whichever
/// thread sent them: none may be lost, taken twice or torn.
void compete(MPI_Comm comm, int thread, int rank, int size, std::atomic<long>& sent, std::atomic<long>& received) {
  std::vector<int> in(20000);
  for (int i = 0; i < kMessages; ++i) {
    std::vector<int> out(i % 60 == 59 ? 20000U : 1U + static_cast<unsigned>(i) % 9, thread * kMessages + i);
    MPI_Request request = MPI_REQUEST_NULL;
    CHECK(MPI_Isend(out.data(), static_cast<int>(out.size()), MPI_INT, (rank + 1) % size, thread, comm, &request) ==
          MPI_SUCCESS);
    sent += out[0];
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    CHECK(MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &message, &status) == MPI_SUCCESS);
    int length = 0;
    MPI_Get_count(&status, MPI_INT, &length);
    CHECK(length >= 1 && length <= 20000);
    CHECK(MPI_Mrecv(in.data(), length, MPI_INT, &message, &status) == MPI_SUCCESS);
    for (int k = 0; k < length; ++k) CHECK_EQ(in[static_cast<std::size_t>(k)], in[0]);
    CHECK_EQ(in[0] / kMessages, status.MPI_TAG);
    received += in[0];
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
  }
}

void compete_for_messages(MPI_Comm comm, int rank, int size) {
  std::atomic<long> sent{0};
  std::atomic<long> received{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] { compete(comm, i, rank, size, sent, received); });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(received.load(), sent.load());  // all ranks send the same
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

/// Two halves of the thread's communicator meet, all threads with the same tag.
void connect(MPI_Comm comm, int rank, int size) {
  for (int i = 0; i < 20; ++i) {
    MPI_Comm half = MPI_COMM_NULL;
    MPI_Comm both = MPI_COMM_NULL;
    MPI_Comm_split(comm, rank < size / 2 ? 0 : 1, rank, &half);
    MPI_Intercomm_create(half, 0, comm, rank < size / 2 ? size / 2 : 0, 99, &both);
    int others = -1;
    MPI_Comm_remote_size(both, &others);
    CHECK_EQ(others, rank < size / 2 ? size - size / 2 : size / 2);
    MPI_Comm_free(&both);
    MPI_Comm_free(&half);
  }
}

/// One thread sends to itself while the buffer of the communicator comes and goes: what it has sent arrives unchanged.
void attach_while_sending() {
  constexpr int kInts = 64;
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_SELF, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  std::atomic<bool> over{false};
  std::thread sender{[&] {
    for (int i = 0; i < kMessages;) {
      const std::vector<int> out(kInts, i);
      std::vector<int> in(kInts, -1);
      const int error = MPI_Bsend(out.data(), kInts, MPI_INT, 0, 0, comm);
      if (error != MPI_SUCCESS) {
        int error_class = -1;
        MPI_Error_class(error, &error_class);
        CHECK_EQ(error_class, MPI_ERR_BUFFER);
        continue;
      }
      CHECK(MPI_Recv(in.data(), kInts, MPI_INT, 0, 0, comm, MPI_STATUS_IGNORE) == MPI_SUCCESS);
      CHECK(in == out);
      ++i;
    }
    over = true;
  }};
  std::vector<char> memory(2 * kInts * sizeof(int) + MPI_BSEND_OVERHEAD);
  while (!over) {
    void* base = nullptr;
    int size = 0;
    CHECK(MPI_Comm_attach_buffer(comm, memory.data(), static_cast<int>(memory.size())) == MPI_SUCCESS);
    std::this_thread::yield();
    CHECK(MPI_Comm_detach_buffer(comm, &base, &size) == MPI_SUCCESS);
    CHECK(base == memory.data());
    std::fill(memory.begin(), memory.end(), '\xff');
  }
  sender.join();
  MPI_Comm_free(&comm);
}

}  // namespace

int main(int argc, char** argv) {
  int provided = -1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
  const int rank = my_rank();
  const int size = world_size();
  MPI_Comm comms[3];
  for (MPI_Comm& comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(exchange, i, rank, size);
  for (int i = 0; i < 2; ++i) threads.emplace_back(collect, comms[i], i, rank, size);
  for (std::thread& thread : threads) thread.join();
  compete_for_messages(comms[2], rank, size);
  threads.clear();
  if (size > 1) {
    for (const MPI_Comm comm : comms) threads.emplace_back(connect, comm, rank, size);
  }
  for (std::thread& thread : threads) thread.join();
  for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
  attach_while_sending();
  windows(rank, size);
  MPI_Finalize();
  return 0;
}
