// SPDX-License-Identifier: Apache-2.0
// MPI_THREAD_MULTIPLE with communicators on several VCIs: threads with a communicator each, requests of many VCIs in
// one wait, and what moves on a VCI while the only thread waits on another.
//   vcis            with as many VCIs as mpi_vcis says
//   vcis mixed      with another number in each process
//   vcis dead       three ranks, one of which is killed: its waiters are told on every VCI
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "tests/harness/process.hpp"
#include "tests/mpi_shim/programs/check.h"

namespace {

constexpr int kComms = 5;  // one VCI more than the most that the tests open has two
constexpr int kLarge = 1 << 20;

struct World {
  int rank;
  int size;
  MPI_Comm comms[kComms];

  [[nodiscard]] int next() const { return (rank + 1) % size; }
  [[nodiscard]] int previous() const { return (rank + size - 1) % size; }
};

unsigned char* filled(std::vector<unsigned char>& bytes, int seed) {
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern(static_cast<long long>(i), seed);
  return bytes.data();
}

void check_filled(const std::vector<unsigned char>& bytes, int seed) {
  for (std::size_t i = 0; i < bytes.size(); ++i) CHECK_EQ(bytes[i], pattern(static_cast<long long>(i), seed));
}

/// One thread's messages of all protocols and collectives, on a communicator of its own.
void use(const World& world, int thread) {
  const MPI_Comm comm = world.comms[thread];
  for (int i = 0; i < 100; ++i) {
    const int count = i % 25 == 0 ? kLarge : 1 + 37 * i;
    std::vector<unsigned char> out(static_cast<std::size_t>(count));
    std::vector<unsigned char> in(static_cast<std::size_t>(count));
    MPI_Request requests[2];
    MPI_Status statuses[2];
    const bool any = i % 2 == 0;
    CHECK(MPI_Irecv(in.data(), count, MPI_BYTE, any ? MPI_ANY_SOURCE : world.previous(), any ? MPI_ANY_TAG : i, comm,
                    &requests[0]) == MPI_SUCCESS);
    filled(out, world.rank * 100 + thread * 10 + i);
    CHECK((i % 3 == 0 ? MPI_Issend : MPI_Isend)(out.data(), count, MPI_BYTE, world.next(), i, comm, &requests[1]) ==
          MPI_SUCCESS);
    CHECK(MPI_Waitall(2, requests, statuses) == MPI_SUCCESS);
    CHECK_EQ(statuses[0].MPI_SOURCE, world.previous());
    CHECK_EQ(statuses[0].MPI_TAG, i);
    check_filled(in, world.previous() * 100 + thread * 10 + i);
    int sum = 0;
    const int mine = world.rank + i * thread;
    CHECK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS);
    CHECK_EQ(sum, world.size * (world.size - 1) / 2 + world.size * i * thread);
  }
}

void threads_with_a_communicator_each(const World& world) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kComms; ++i) threads.emplace_back([&, i] { use(world, i); });
  for (std::thread& thread : threads) thread.join();
}

/// Every way to wait for several requests, which come on all VCIs and in another order than they were started in.
void one_wait_for_many_vcis(const World& world) {
  for (int way = 0; way < 5; ++way) {
    int in[kComms];
    MPI_Request receives[kComms];
    for (int i = 0; i < kComms; ++i) {
      CHECK(MPI_Irecv(&in[i], 1, MPI_INT, world.previous(), way, world.comms[i], &receives[i]) == MPI_SUCCESS);
    }
    const auto send = [&](int i) {
      const int word = 100 * way + i;
      CHECK(MPI_Send(&word, 1, MPI_INT, world.next(), way, world.comms[i]) == MPI_SUCCESS);
    };
    if (way < 2) {
      for (int i = kComms; i-- > 0;) send(i);
      if (way == 0) CHECK(MPI_Waitall(kComms, receives, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
      for (int done = 0; way == 1 && done == 0;) {
        CHECK(MPI_Testall(kComms, receives, &done, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
      }
    }
    // One message at a time, so that each wait is for one VCI of those it could be.
    for (int left = kComms; way >= 2 && left > 0; --left) {
      send(left - 1);
      int index = -1;
      if (way == 2) CHECK(MPI_Waitany(kComms, receives, &index, MPI_STATUS_IGNORE) == MPI_SUCCESS);
      if (way == 3) {
        int count = 0;
        int indices[kComms];
        CHECK(MPI_Waitsome(kComms, receives, &count, indices, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
        CHECK_EQ(count, 1);
        index = indices[0];
      }
      for (int flag = 0; way == 4 && flag == 0;) {
        CHECK(MPI_Testany(kComms, receives, &index, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS);
      }
      CHECK_EQ(index, left - 1);
      CHECK(MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS);  // else a fast sender is ahead
    }
    for (int i = 0; i < kComms; ++i) CHECK_EQ(in[i], 100 * way + i);
  }
}

enum class Way { receive, probe, iprobe, test, barrier };
constexpr Way kWays[] = {Way::receive, Way::probe, Way::iprobe, Way::test, Way::barrier};

/// Comes back when `partner` has called signal().
void wait_for(int partner, MPI_Comm comm, Way way) {
  int word = 0;
  int flag = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  if (way == Way::barrier) {
    CHECK(MPI_Barrier(comm) == MPI_SUCCESS);
    return;
  }
  if (way == Way::probe) CHECK(MPI_Probe(partner, 3, comm, MPI_STATUS_IGNORE) == MPI_SUCCESS);
  while (way == Way::iprobe && flag == 0) {
    CHECK(MPI_Iprobe(partner, 3, comm, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS);
  }
  CHECK(MPI_Irecv(&word, 1, MPI_INT, partner, 3, comm, &request) == MPI_SUCCESS);
  for (flag = 0; way == Way::test && flag == 0;) CHECK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS);
  CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
}

void signal(int partner, MPI_Comm comm, Way way) {
  const int word = 1;
  if (way == Way::barrier) {
    CHECK(MPI_Barrier(comm) == MPI_SUCCESS);
  } else {
    CHECK(MPI_Send(&word, 1, MPI_INT, partner, 3, comm) == MPI_SUCCESS);
  }
}

/// Even ranks wait on one VCI until the next rank has had, from or by them, a large message on another one, which
/// moves only by what a wait does for VCIs that are not its own.
void large_messages_move_on_vcis_where_nobody_waits(const World& world) {
  if (world.size % 2 != 0) return;
  std::vector<unsigned char> large(kLarge);
  for (const Way way : kWays) {
    for (int vci = 0; vci + 1 < kComms; ++vci) {
      const MPI_Comm here = world.comms[vci];
      const MPI_Comm there = world.comms[vci + 1];
      for (const bool sends : {true, false}) {
        MPI_Request request = MPI_REQUEST_NULL;
        if (world.rank % 2 == 0) {
          const int partner = world.next();
          if (sends) {
            CHECK(MPI_Isend(filled(large, vci), kLarge, MPI_BYTE, partner, 5, there, &request) == MPI_SUCCESS);
          } else {
            CHECK(MPI_Irecv(large.data(), kLarge, MPI_BYTE, partner, 5, there, &request) == MPI_SUCCESS);
          }
          wait_for(partner, here, way);
          CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
          if (!sends) check_filled(large, vci);
        } else {
          const int partner = world.previous();
          if (sends) {
            CHECK(MPI_Recv(large.data(), kLarge, MPI_BYTE, partner, 5, there, MPI_STATUS_IGNORE) == MPI_SUCCESS);
            check_filled(large, vci);
          } else {
            CHECK(MPI_Ssend(filled(large, vci), kLarge, MPI_BYTE, partner, 5, there) == MPI_SUCCESS);
          }
          signal(partner, here, way);
        }
      }
    }
  }
}

/// Buffered messages of all VCIs share the process's buffer.
void buffered_sends_on_many_vcis(const World& world) {
  int word = 0;
  MPI_Request flush = MPI_REQUEST_NULL;
  for (int round = 0; round < 20; ++round) {
    for (const MPI_Comm comm : world.comms) {
      word = round;
      CHECK(MPI_Bsend(&word, 1, MPI_INT, world.next(), 7, comm) == MPI_SUCCESS);
    }
    if (round % 2 == 0) CHECK(MPI_Buffer_iflush(&flush) == MPI_SUCCESS);
    for (const MPI_Comm comm : world.comms) {
      CHECK(MPI_Recv(&word, 1, MPI_INT, world.previous(), 7, comm, MPI_STATUS_IGNORE) == MPI_SUCCESS);
      CHECK_EQ(word, round);
    }
    CHECK(MPI_Wait(&flush, MPI_STATUS_IGNORE) == MPI_SUCCESS);
  }
  CHECK(MPI_Buffer_flush() == MPI_SUCCESS);
}

/// A thread sleeps for what another thread says is done, and for messages of all VCIs meanwhile.
void generalized_requests_beside_vcis(const World& world) {
  const auto nothing = [](void*) { return MPI_SUCCESS; };
  const auto asked = [](void*, MPI_Status* status) {
    MPI_Status_set_elements(status, MPI_INT, 0);
    MPI_Status_set_cancelled(status, 0);
    return MPI_SUCCESS;
  };
  const auto no_cancel = [](void*, int) { return MPI_SUCCESS; };
  int word = 0;
  MPI_Request requests[kComms + 1];
  CHECK(MPI_Grequest_start(asked, nothing, no_cancel, nullptr, &requests[0]) == MPI_SUCCESS);
  for (int i = 0; i < kComms; ++i) {
    CHECK(MPI_Irecv(&word, 1, MPI_INT, world.previous(), 9, world.comms[i], &requests[1 + i]) == MPI_SUCCESS);
  }
  std::thread other{[request = requests[0]] { CHECK(MPI_Grequest_complete(request) == MPI_SUCCESS); }};
  int index = -1;
  CHECK(MPI_Waitany(kComms + 1, requests, &index, MPI_STATUS_IGNORE) == MPI_SUCCESS);
  CHECK_EQ(index, 0);
  other.join();
  for (int i = 0; i < kComms; ++i) {
    CHECK(MPI_Cancel(&requests[1 + i]) == MPI_SUCCESS);
    CHECK(MPI_Request_free(&requests[1 + i]) == MPI_SUCCESS);
  }
}

/// A thread sleeps until another one cancels its receive.
void receives_cancelled_by_another_thread(const World& world) {
  for (const MPI_Comm comm : world.comms) {
    int word = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    CHECK(MPI_Irecv(&word, 1, MPI_INT, world.previous(), 11, comm, &request) == MPI_SUCCESS);
    std::thread other{[same = request, waiter = gettid()]() mutable {
      while (opal::test::state_of(waiter) != 'S') std::this_thread::yield();
      CHECK(MPI_Cancel(&same) == MPI_SUCCESS);
    }};
    MPI_Status status;
    int cancelled = 0;
    CHECK(MPI_Wait(&request, &status) == MPI_SUCCESS);
    CHECK(MPI_Test_cancelled(&status, &cancelled) == MPI_SUCCESS);
    CHECK(cancelled);
    other.join();
  }
}

std::atomic<bool> sending;   // a thread is inside MPI_Bsend, where it reads a page that it cannot read yet
std::atomic<bool> readable;  // now it can

void wait_until_readable(int /*signal*/) {
  sending = true;
  while (!readable) std::this_thread::yield();
}

/// A thread detaches a buffer and sleeps while another one sends a message from it, which leaves at once.  No message
/// comes that would wake the thread.
void buffers_detached_beside_a_send(const World& world) {
  const MPI_Comm comm = world.comms[0];
  CHECK(MPI_Barrier(comm) == MPI_SUCCESS);
  char byte = 1;
  if (world.rank != 0) {
    if (world.rank == 1) CHECK(MPI_Recv(&byte, 1, MPI_BYTE, 0, 12, comm, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    CHECK(MPI_Recv(&byte, 1, MPI_BYTE, 0, 13, comm, MPI_STATUS_IGNORE) == MPI_SUCCESS);
  }
  if (world.rank != 0 || world.size == 1) return;
  void* const page = mmap(nullptr, 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(page != MAP_FAILED);
  const auto before = std::signal(SIGSEGV, wait_until_readable);
  char buffer[8 + MPI_BSEND_OVERHEAD];
  CHECK(MPI_Comm_attach_buffer(comm, buffer, sizeof buffer) == MPI_SUCCESS);
  std::thread sender{[&] { CHECK(MPI_Bsend(page, 1, MPI_BYTE, 1, 12, comm) == MPI_SUCCESS); }};
  while (!sending) std::this_thread::yield();
  std::thread sleep_watcher{[page, detacher = gettid()] {
    while (opal::test::state_of(detacher) != 'S') std::this_thread::yield();
    CHECK(mprotect(page, 1, PROT_READ | PROT_WRITE) == 0);
    readable = true;
  }};
  void* detached = nullptr;
  int bytes = 0;
  CHECK(MPI_Comm_detach_buffer(comm, &detached, &bytes) == MPI_SUCCESS);
  sender.join();
  sleep_watcher.join();
  std::signal(SIGSEGV, before);
  munmap(page, 1);
  for (int rank = 1; rank < world.size; ++rank) {
    CHECK(MPI_Send(&byte, 1, MPI_BYTE, rank, 13, comm) == MPI_SUCCESS);
  }
}

/// Communicators of all kinds come and go on all VCIs, by several threads at once, and windows with them.
void communicators_and_windows_on_all_vcis(const World& world) {
  std::vector<std::thread> threads;
  for (const MPI_Comm comm : world.comms) {
    threads.emplace_back([&world, comm] {
      for (int i = 0; i < 5; ++i) {
        MPI_Comm made = MPI_COMM_NULL;
        if (i % 2 == 0) {
          MPI_Request request = MPI_REQUEST_NULL;
          CHECK(MPI_Comm_idup(comm, &made, &request) == MPI_SUCCESS);
          CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        } else {
          CHECK(MPI_Comm_split(comm, 0, world.size - world.rank, &made) == MPI_SUCCESS);
        }
        int sum = 0;
        CHECK(MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, made) == MPI_SUCCESS);
        CHECK_EQ(sum, world.size * i);
        int* memory = nullptr;
        MPI_Win window = MPI_WIN_NULL;
        CHECK(MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, made, &memory, &window) == MPI_SUCCESS);
        *memory = 0;
        CHECK(MPI_Win_fence(0, window) == MPI_SUCCESS);
        const int one = 1;
        CHECK(MPI_Accumulate(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, window) == MPI_SUCCESS);
        CHECK(MPI_Win_fence(0, window) == MPI_SUCCESS);
        int rank = -1;
        MPI_Comm_rank(made, &rank);
        CHECK_EQ(*memory, rank == 0 ? world.size : 0);
        CHECK(MPI_Win_free(&window) == MPI_SUCCESS);
        CHECK(MPI_Comm_free(&made) == MPI_SUCCESS);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

int class_of(int error) {
  int error_class = -1;
  MPI_Error_class(error, &error_class);
  return error_class;
}

/// Rank 1 has exchanged messages on MPI_COMM_WORLD only.  The launcher ends the job, so that the others have to outlive
/// its SIGTERM.
int lose_a_rank(World& world) {
  std::signal(SIGTERM, SIG_IGN);
  CHECK_EQ(world.size, 3);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (const MPI_Comm comm : world.comms) MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  std::vector<std::thread> threads;
  if (world.rank == 0) {
    for (const MPI_Comm comm : world.comms) {
      threads.emplace_back([comm] {
        int word = 0;
        CHECK_EQ(class_of(MPI_Recv(&word, 1, MPI_INT, 1, 1, comm, MPI_STATUS_IGNORE)), MPI_ERR_PROC_ABORTED);
        CHECK_EQ(class_of(MPI_Send(&word, 1, MPI_INT, 1, 1, comm)), MPI_ERR_PROC_ABORTED);
      });
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (world.rank == 1) raise(SIGKILL);
  for (std::thread& thread : threads) thread.join();
  int word = 0;
  if (world.rank == 0) {
    for (const MPI_Comm comm : world.comms) CHECK(MPI_Send(&word, 1, MPI_INT, 2, 2, comm) == MPI_SUCCESS);
    std::printf("every VCI has heard of the death\n");
    std::fflush(stdout);
    MPI_Recv(&word, 1, MPI_INT, 2, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);  // not before rank 2 has them
  } else {
    for (const MPI_Comm comm : world.comms)
      CHECK(MPI_Recv(&word, 1, MPI_INT, 0, 2, comm, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    MPI_Send(&word, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
  }
  _exit(0);  // MPI_Finalize would wait for the dead
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (what == "mixed") {
    const char* const rank = std::getenv("PMIX_RANK");
    const int number = rank != nullptr ? std::atoi(rank) : 0;
    setenv("OPAL_MPI_VCIS", number % 3 == 0 ? "4" : number % 3 == 1 ? "2" : "3", 1);
  }
  int provided = -1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
  World world{my_rank(), world_size(), {}};
  for (MPI_Comm& comm : world.comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  if (what == "dead") return lose_a_rank(world);
  std::vector<unsigned char> buffer(static_cast<std::size_t>(kComms) * 10 * (sizeof(int) + MPI_BSEND_OVERHEAD));
  MPI_Buffer_attach(buffer.data(), static_cast<int>(buffer.size()));
  threads_with_a_communicator_each(world);
  one_wait_for_many_vcis(world);
  large_messages_move_on_vcis_where_nobody_waits(world);
  buffered_sends_on_many_vcis(world);
  generalized_requests_beside_vcis(world);
  receives_cancelled_by_another_thread(world);
  buffers_detached_beside_a_send(world);
  communicators_and_windows_on_all_vcis(world);
  void* detached = nullptr;
  int bytes = 0;
  MPI_Buffer_detach(&detached, &bytes);
  for (MPI_Comm& comm : world.comms) MPI_Comm_free(&comm);
  MPI_Finalize();
  return 0;
}
