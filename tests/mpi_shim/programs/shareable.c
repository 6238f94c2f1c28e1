/* SPDX-License-Identifier: Apache-2.0
 * Run with memory_shareable_from: messages between buffers of malloc are copied through mappings.  Once the peer's
 * memory is mapped, the system calls by which processes copy each other's memory are made deadly. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/mpi_shim/programs/check.h"

enum { kFrom = 1 << 20, kTag = 3 };

/* Files of shareable memory that are mapped here in one piece: those of peers. */
static int peers_mapped(void) {
  FILE* const maps = fopen("/proc/self/maps", "r");
  char line[512];
  int count = 0;
  CHECK(maps != NULL);
  while (fgets(line, sizeof line, maps) != NULL) {
    unsigned long begin = 0;
    unsigned long end = 0;
    if (strstr(line, "/memfd:opal-private") == NULL || sscanf(line, "%lx-%lx", &begin, &end) != 2) continue;
    count += end - begin >= (1UL << 30);
  }
  fclose(maps);
  return count;
}

/* True when the threads of the libraries have nothing to do, so what they have mapped they have also told. */
static int others_sleep(void) {
  DIR* const tasks = opendir("/proc/self/task");
  int asleep = 1;
  CHECK(tasks != NULL);
  for (struct dirent* task = readdir(tasks); task != NULL; task = readdir(tasks)) {
    char path[300];
    char line[512] = "";
    if (task->d_name[0] == '.' || atol(task->d_name) == (long)getpid()) continue;
    snprintf(path, sizeof path, "/proc/self/task/%s/stat", task->d_name);
    FILE* const stat = fopen(path, "r");
    if (stat == NULL) continue;
    const char* const state = fgets(line, sizeof line, stat) != NULL ? strrchr(line, ')') : NULL;
    asleep = asleep && state != NULL && state[2] == 'S';
    fclose(stat);
  }
  closedir(tasks);
  return asleep;
}

/* One message each way between ranks 0 and 1, from and to blocks fresh from malloc. */
static void exchange(size_t size, int seed) {
  const int peer = 1 - my_rank();
  unsigned char* const buffer = malloc(size);
  CHECK(buffer != NULL);
  for (int sender = 0; sender < 2; ++sender) {
    if (my_rank() == sender) {
      for (size_t i = 0; i < size; ++i) buffer[i] = pattern((long long)i, seed + sender);
      MPI_Send(buffer, (int)size, MPI_BYTE, peer, kTag, MPI_COMM_WORLD);
    } else {
      memset(buffer, 0, size);
      MPI_Recv(buffer, (int)size, MPI_BYTE, peer, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      for (size_t i = 0; i < size; ++i) CHECK(buffer[i] == pattern((long long)i, seed + sender));
    }
  }
  free(buffer);
}

/* False where this system has no such filters. */
static int forbid_single_copy(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  struct sock_fprog program = {sizeof code / sizeof *code, code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* A child with the window's memory as it was, which it may change for itself. */
static void fork_beside(unsigned char* memory, size_t size) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    const unsigned char was = memory[size / 2];
    memset(memory, 99, size);
    _exit(was == 42 ? 0 : 1);
  }
  int status = -1;
  while (waitpid(child, &status, 0) < 0) CHECK(errno == EINTR);
  CHECK_EQ(status, 0);
  CHECK_EQ(memory[size / 2], 42);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  CHECK_EQ(world_size(), 2);
  int both = 0;
  for (int round = 0; !both; ++round) { /* until each knows the other's memory */
    const int mine = peers_mapped() == 1 && others_sleep();
    exchange(kFrom, round);
    MPI_Allreduce(&mine, &both, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
  }
  if (!forbid_single_copy()) printf("no filters for system calls here: only the results are checked\n");
  for (int round = 0; round < 40; ++round) {
    for (size_t size = kFrom; size <= 4U * kFrom; size += kFrom + 12345) exchange(size, round);
  }

  unsigned char* const memory = malloc(kFrom);
  memset(memory, 42, kFrom);
  MPI_Win window;
  MPI_Win_create(memory, kFrom, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  unsigned char* const source = malloc(kFrom); /* a quarter is sent; the target may read it itself */
  memset(source, 7, kFrom / 4);
  for (int round = 0; round < 5; ++round) {
    fork_beside(memory, kFrom);
    MPI_Win_fence(0, window);
    MPI_Put(source, kFrom / 4, MPI_BYTE, 1 - my_rank(), 0, kFrom / 4, MPI_BYTE, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < kFrom; ++i) CHECK_EQ(memory[i], i < kFrom / 4 ? 7 : 42);
  }
  MPI_Win_free(&window);
  free(memory);
  free(source);
  CHECK_EQ(peers_mapped(), 1);
  MPI_Finalize();
  return 0;
}
