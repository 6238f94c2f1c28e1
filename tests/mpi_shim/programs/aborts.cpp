// SPDX-License-Identifier: Apache-2.0
// MPI_Abort from wherever a program may call it, named by the argument: the launcher has to report status 5, and nobody
// may stay behind, whatever the others are blocked in.  A program that reaches its end has failed.
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>

#include "tests/mpi_shim/programs/check.h"

namespace {

constexpr int kStatus = 5;

/// A receive that nothing will match.
void block() {
  int value = 0;
  MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/// A second thread, while the first is blocked in a receive, as are all other ranks.
void in_a_thread(int rank) {
  if (rank == 0) {
    std::thread{[] {
      std::this_thread::sleep_for(std::chrono::milliseconds{50});  // most likely after block(); right either way
      MPI_Abort(MPI_COMM_WORLD, kStatus);
    }}.detach();
  }
  block();
}

/// A second thread waits for input that never comes, and holds the lock of stdin meanwhile.
void beside_a_reader(int rank) {
  int ends[2] = {-1, -1};
  if (rank != 0) block();
  if (::pipe(ends) != 0 || ::dup2(ends[0], STDIN_FILENO) < 0) return;
  std::thread{[] { std::getchar(); }}.detach();
  while (::ftrylockfile(stdin) == 0) {
    ::funlockfile(stdin);
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  MPI_Abort(MPI_COMM_WORLD, kStatus);
}

void abort_in_operation(void*, void*, int*, MPI_Datatype*) { MPI_Abort(MPI_COMM_WORLD, kStatus); }

/// A user's reduction, which the library calls in the middle of a collective; in the rank that combines first.
void in_a_collective(int (*reduce)(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm)) {
  MPI_Op op = MPI_OP_NULL;
  MPI_Op_create(abort_in_operation, 1, &op);
  const int mine = 1;
  int result = 0;
  reduce(&mine, &result, 1, MPI_INT, op, MPI_COMM_WORLD);
  block();
}

int reduce_later(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(in, out, count, type, op, comm, &request);
  return MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/// The holder of a lock that all others wait for.
void in_an_epoch(int rank) {
  int* memory = nullptr;
  MPI_Win win = MPI_WIN_NULL;
  MPI_Win_allocate(sizeof *memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
  if (rank == 0) MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) MPI_Abort(MPI_COMM_WORLD, kStatus);
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
}

bool is_stopped(int pid) {
  std::ifstream file{"/proc/" + std::to_string(pid) + "/stat"};
  std::string number;
  std::string name;
  char state = '?';
  file >> number >> name >> state;
  return state == 'T';
}

/// The last rank is stopped, so it cannot hear of its end.
void beside_a_stopped_one(int rank, int size) {
  const int pid = ::getpid();
  if (rank == size - 1) {
    MPI_Ssend(&pid, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);  // a stopped process sends nothing that it still keeps
    ::raise(SIGSTOP);
  }
  if (rank == 0) {
    int theirs = 0;
    MPI_Recv(&theirs, 1, MPI_INT, size - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    while (!is_stopped(theirs)) std::this_thread::sleep_for(std::chrono::milliseconds{1});
    MPI_Abort(MPI_COMM_WORLD, kStatus);
  }
  block();
}

void on_error(MPI_Comm*, int*, ...) { MPI_Abort(MPI_COMM_WORLD, kStatus); }

void in_an_error_handler(int rank, int size) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_create_errhandler(on_error, &handler);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  if (rank == 0) MPI_Send(&rank, 1, MPI_INT, size, 0, MPI_COMM_WORLD);
  block();
}

int forget(MPI_Comm, int, void*, void*) { return MPI_Abort(MPI_COMM_WORLD, kStatus); }

/// An attribute of MPI_COMM_SELF is forgotten first of all in MPI_Finalize.
void at_the_end(int rank) {
  int key = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &key, nullptr);
  if (rank != 0) block();
  MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr);
  MPI_Finalize();
}

/// The text of a fatal error names the argument that is negative.
void negative(std::string_view argument) {
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group made = MPI_GROUP_NULL;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  int size = 0;
  if (argument == "n") MPI_Group_incl(world, -1, &size, &made);
  if (argument == "size") MPI_Buffer_attach(&size, -1);
  if (argument == "incount") MPI_Pack_size(-1, MPI_INT, MPI_COMM_WORLD, &size);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2 && std::string_view{argv[1]} == "early") MPI_Abort(MPI_COMM_WORLD, std::atoi(argv[2]));
  int provided = -1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  const int rank = my_rank();
  const int size = world_size();
  const std::string_view where = argc > 1 ? argv[1] : "";
  if (where == "thread") in_a_thread(rank);
  if (where == "reader") beside_a_reader(rank);
  if (where == "collective") in_a_collective(MPI_Allreduce);
  if (where == "schedule") in_a_collective(reduce_later);
  if (where == "epoch") in_an_epoch(rank);
  if (where == "stopped") beside_a_stopped_one(rank, size);
  if (where == "handler") in_an_error_handler(rank, size);
  if (where == "finalize") at_the_end(rank);
  if (where == "negative") negative(argc > 2 ? argv[2] : "");
  std::fprintf(stderr, "rank %d: it went on\n", rank);
  return 0;
}
