/* SPDX-License-Identifier: Apache-2.0
 * Messages around and above the eager limit: expected and unexpected, into contiguous and strided buffers, truncated,
 * canceled, and more unexpected ones than there is credit for the parts that their offers carry. */
#include <sys/resource.h>

#include "tests/mpi_shim/programs/check.h"

enum { largest = 1 << 20, guard = 64 };

static unsigned char source[largest], target[2 * largest + guard];
static const int sizes[] = {1000, 4095, 4096, 65535, 65536, 65537, 65600, 131000, 131072, 262144, largest};
enum { count = sizeof sizes / sizeof *sizes };

/* Rank 0 sends a message of each size to rank 1; rank 1 receives it after it has arrived, or before it is sent. */
static void send_each(void (*receive)(int bytes)) {
  for (int i = 0; i < count; ++i) {
    for (int unexpected = 0; unexpected < 2; ++unexpected) {
      if (my_rank() == 0) {
        if (!unexpected) MPI_Recv(NULL, 0, MPI_BYTE, 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(source, sizes[i], MPI_BYTE, 1, 1, MPI_COMM_WORLD);
      } else {
        memset(target, 0xee, sizeof target);
        if (unexpected) {
          MPI_Status status;
          int bytes = 0;
          MPI_Probe(0, 1, MPI_COMM_WORLD, &status);
          MPI_Get_count(&status, MPI_BYTE, &bytes);
          CHECK_EQ(bytes, sizes[i]);
        } else {
          MPI_Send(NULL, 0, MPI_BYTE, 0, 9, MPI_COMM_WORLD);
        }
        receive(sizes[i]);
      }
    }
  }
}

static void contiguous(int bytes) {
  MPI_Recv(target, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  CHECK(memcmp(target, source, (size_t)bytes) == 0);
  CHECK_EQ(target[bytes], 0xee);
}

static void strided(int bytes) {
  MPI_Datatype every_second;
  MPI_Type_vector(bytes, 1, 2, MPI_BYTE, &every_second);
  MPI_Type_commit(&every_second);
  MPI_Recv(target, 1, every_second, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Type_free(&every_second);
  for (int i = 0; i < bytes; ++i) CHECK(target[2 * i] == source[i] && target[2 * i + 1] == 0xee);
}

static void receive_truncated(int bytes, int room) {
  if (room >= bytes) return contiguous(bytes);
  MPI_Status status;
  int class, received = -1;
  MPI_Error_class(MPI_Recv(target, room, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &status), &class);
  CHECK_EQ(class, MPI_ERR_TRUNCATE);
  MPI_Get_count(&status, MPI_BYTE, &received);
  CHECK_EQ(received, room);
  CHECK(memcmp(target, source, (size_t)room) == 0);
  CHECK_EQ(target[room], 0xee);
}
static void truncated_to_nothing(int bytes) { receive_truncated(bytes, 0); }
static void truncated_within_the_first_part(int bytes) { receive_truncated(bytes, 1000); }
static void truncated_behind_it(int bytes) { receive_truncated(bytes, 66000); }

static void canceled(void) {
  for (int i = 0; i < count; ++i) {
    if (my_rank() == 0) {
      MPI_Request request;
      MPI_Status status;
      int flag = 0;
      MPI_Issend(source, sizes[i], MPI_BYTE, 1, 2, MPI_COMM_WORLD, &request);
      MPI_Send(NULL, 0, MPI_BYTE, 1, 3, MPI_COMM_WORLD);
      MPI_Cancel(&request);
      MPI_Wait(&request, &status);
      MPI_Test_cancelled(&status, &flag);
      CHECK_EQ(flag, 1);
      MPI_Send(NULL, 0, MPI_BYTE, 1, 3, MPI_COMM_WORLD);
    } else {
      int flag;
      MPI_Recv(NULL, 0, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Recv(NULL, 0, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Iprobe(0, 2, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
      CHECK_EQ(flag, 0);
    }
    MPI_Barrier(MPI_COMM_WORLD); /* the next message comes after the probe */
  }
}

static long resident_kilobytes(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

/* 40 MB of first parts, if there were no limit; the default is 4 MiB for each sender. */
static void more_than_credit(void) {
  enum { many = 600, bytes = 200000, rounds = 3 };
  static MPI_Request requests[many];
  for (int round = 0; round < rounds; ++round) { /* the credit returns */
    if (my_rank() == 0) {
      for (int i = 0; i < many; ++i) MPI_Isend(source, bytes, MPI_BYTE, 1, i, MPI_COMM_WORLD, &requests[i]);
      MPI_Send(NULL, 0, MPI_BYTE, 1, many, MPI_COMM_WORLD);
      MPI_Waitall(many, requests, MPI_STATUSES_IGNORE);
    } else {
      const long before = resident_kilobytes();
      MPI_Recv(NULL, 0, MPI_BYTE, 0, many, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* behind all offers */
      const long grown = resident_kilobytes() - before;
      if (grown > 16 * 1024) {
        fprintf(stderr, "%d offers took %ld KiB of memory\n", many, grown);
        MPI_Abort(MPI_COMM_WORLD, 1);
      }
      for (int i = many - 1; i >= 0; --i) {
        memset(target, 0, bytes);
        MPI_Recv(target, bytes, MPI_BYTE, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(memcmp(target, source, bytes) == 0);
      }
    }
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  CHECK_EQ(world_size(), 2);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (int i = 0; i < largest; ++i) source[i] = pattern(i, 3);
  memset(target, 0, sizeof target);
  send_each(contiguous);
  send_each(strided);
  send_each(truncated_to_nothing);
  send_each(truncated_within_the_first_part);
  send_each(truncated_behind_it);
  canceled();
  more_than_credit();
  MPI_Finalize();
  return 0;
}
