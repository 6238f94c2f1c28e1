// SPDX-License-Identifier: Apache-2.0
// All ranks wait for each other, and the variable mpi_deadlock_report has rank 0 say so.  A thread of rank 0 reads what
// the library prints and then, as the only one that can, sends the message that everything waits for.
#include <unistd.h>

#include <cstdio>
#include <string>
#include <thread>

#include "tests/mpi_shim/programs/check.h"

namespace {

int rank;
int size;
int report_end = -1;  // rank 0: where its stderr comes out

/// Reads the next report up to the line of the last rank.
std::string read_report() {
  const std::string last = "  rank " + std::to_string(size - 1) + " waits ";
  std::string text;
  char byte = 0;
  while (text.find(last) == std::string::npos || text.back() != '\n') {
    CHECK(::read(report_end, &byte, 1) == 1);
    text += byte;
  }
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
  return text;
}

bool says(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

/// Each rank waits for the next one.
void a_circle() {
  std::thread saviour;
  if (rank == 0) {
    saviour = std::thread{[] {
      const std::string text = read_report();
      CHECK(says(text, "all " + std::to_string(size) + " ranks have been waiting"));
      CHECK(says(text, ": rank 0 -> 1"));
      CHECK(says(text, "rank 0 waits for a message from rank 1 on MPI_COMM_WORLD, tag 7"));
      MPI_Send(nullptr, 0, MPI_INT, size - 1, 7, MPI_COMM_WORLD);
    }};
  }
  MPI_Recv(nullptr, 0, MPI_INT, (rank + 1) % size, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank != 0) MPI_Send(nullptr, 0, MPI_INT, rank - 1, 7, MPI_COMM_WORLD);
  if (rank == 0) saviour.join();
  MPI_Barrier(MPI_COMM_WORLD);
}

/// One rank sends what is never received, while the others wait for it in a collective.
void a_send_and_a_barrier() {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_name(comm, "the solver");
  std::thread saviour;
  if (rank == 0) {
    saviour = std::thread{[&] {
      const std::string text = read_report();
      CHECK(says(text, "rank 0 waits to send to rank 0 on the solver, tag 9"));
      CHECK(says(text, "rank " + std::to_string(size - 1) + " waits "));
      MPI_Recv(nullptr, 0, MPI_INT, 0, 9, comm, MPI_STATUS_IGNORE);
    }};
    MPI_Ssend(nullptr, 0, MPI_INT, 0, 9, comm);
    saviour.join();
  }
  MPI_Barrier(comm);
  MPI_Comm_free(&comm);
}

}  // namespace

int main(int argc, char** argv) {
  int provided = -1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
  rank = my_rank();
  size = world_size();
  if (rank == 0) {
    int ends[2];
    CHECK(::pipe(ends) == 0);
    report_end = ends[0];
    CHECK(::dup2(ends[1], 2) == 2);
  }
  a_circle();
  a_send_and_a_barrier();
  MPI_Finalize();
  return 0;
}
