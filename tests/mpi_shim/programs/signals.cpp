// SPDX-License-Identifier: Apache-2.0
// Programs that get signals all the time and start other programs: system calls of the library end with EINTR wherever
// they can, and forked children come and go, some through exit(), which runs what libraries registered for it.  Nothing
// that is sent may be lost, torn or late because of it.
#include <signal.h>
#include <spawn.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include "tests/mpi_shim/programs/check.h"

extern char** environ;

namespace {

// The handlers run in any thread.
std::atomic<int> alarms{0};
std::atomic<int> children{0};
static_assert(std::atomic<int>::is_always_lock_free);
void on_alarm(int) { ++alarms; }
void on_child(int) { ++children; }

/// Without SA_RESTART: interrupted calls come back with EINTR.
void handle(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  CHECK(sigaction(signal, &action, nullptr) == 0);
}

void set_alarms(int microseconds) {
  itimerval timer = {};
  timer.it_value.tv_usec = timer.it_interval.tv_usec = microseconds;
  CHECK(setitimer(ITIMER_REAL, &timer, nullptr) == 0);
}

int status_of(pid_t child) {
  int status = -1;
  while (waitpid(child, &status, 0) < 0) CHECK(errno == EINTR);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// All the ways to another program; a child that leaves by exit() still has the whole library in it.
void start_programs() {
  CHECK(std::system("exit 3") == 3 << 8);
  const pid_t through_exit = fork();
  if (through_exit == 0) std::exit(4);
  CHECK(through_exit > 0);
  CHECK_EQ(status_of(through_exit), 4);
  const pid_t through_exec = fork();
  if (through_exec == 0) {
    execl("/bin/sh", "sh", "-c", "exit 5", static_cast<char*>(nullptr));
    _exit(6);
  }
  CHECK(through_exec > 0);
  CHECK_EQ(status_of(through_exec), 5);
  pid_t spawned = -1;
  char shell[] = "/bin/sh";
  char option[] = "-c";
  char script[] = "exit 7";
  char* arguments[] = {shell, option, script, nullptr};
  int error = 0;
  while ((error = posix_spawn(&spawned, shell, nullptr, nullptr, arguments, environ)) == EINTR) {
  }
  CHECK_EQ(error, 0);
  CHECK_EQ(status_of(spawned), 7);
}

void exchange(int turn, int rank, int size) {
  const std::size_t lengths[] = {1, 100, 5000, 70'000, 3'000'000};
  const std::size_t length = lengths[turn % 5];
  std::vector<unsigned char> out(length);
  std::vector<unsigned char> in(length);
  for (std::size_t i = 0; i < length; ++i) out[i] = pattern(static_cast<long long>(i), rank + turn);
  const int previous = (rank + size - 1) % size;
  CHECK_EQ(MPI_Sendrecv(out.data(), static_cast<int>(length), MPI_BYTE, (rank + 1) % size, 0, in.data(),
                        static_cast<int>(length), MPI_BYTE, previous, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
           MPI_SUCCESS);
  for (std::size_t i = 0; i < length; ++i) CHECK_EQ(in[i], pattern(static_cast<long long>(i), previous + turn));
}

void collect(int turn, int rank, int size) {
  const int mine = rank + turn;
  int sum = 0;
  CHECK_EQ(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD), MPI_SUCCESS);
  CHECK_EQ(sum, size * (size - 1) / 2 + size * turn);
}

}  // namespace

/// A forked child that exits has none of the other threads, so that what only they know of seems lost.
extern "C" const char* __asan_default_options();  // NOLINT(bugprone-reserved-identifier)
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }

int main(int argc, char** argv) {
  CHECK(MPI_Init(&argc, &argv) == MPI_SUCCESS);
  const int rank = my_rank();
  const int size = world_size();
  int* counter = nullptr;
  MPI_Win win = MPI_WIN_NULL;
  CHECK_EQ(MPI_Win_allocate(sizeof *counter, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &counter, &win), MPI_SUCCESS);
  *counter = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  handle(SIGALRM, on_alarm);
  handle(SIGCHLD, on_child);
  set_alarms(1000);
  constexpr int kTurns = 40;
  for (int turn = 0; turn < kTurns; ++turn) {
    exchange(turn, rank, size);
    collect(turn, rank, size);
    const int one = 1;
    int before = -1;
    CHECK_EQ(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win), MPI_SUCCESS);
    CHECK_EQ(MPI_Fetch_and_op(&one, &before, MPI_INT, 0, 0, MPI_SUM, win), MPI_SUCCESS);
    CHECK_EQ(MPI_Win_unlock(0, win), MPI_SUCCESS);
    CHECK(before >= 0 && before < size * kTurns);
    if (turn % 8 == rank % 8) start_programs();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) CHECK_EQ(*counter, size * kTurns);
  while (alarms == 0) usleep(1000);
  CHECK(children > 0);
  CHECK_EQ(MPI_Win_free(&win), MPI_SUCCESS);
  CHECK(MPI_Finalize() == MPI_SUCCESS);  // under alarms, too
  set_alarms(0);
  return 0;
}
