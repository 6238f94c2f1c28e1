/* SPDX-License-Identifier: Apache-2.0
 * Windows of each flavour, for programs that test them. */
#ifndef OPAL_TESTS_MPI_WINDOW_H
#define OPAL_TESTS_MPI_WINDOW_H

#include "check.h"

/* flavour: 0 MPI_Win_create, 1 MPI_Win_allocate, 2 MPI_Win_allocate_shared. */
static inline MPI_Win make_window(int flavour, MPI_Aint bytes, int unit, void* base) {
  MPI_Win win = MPI_WIN_NULL;
  switch (flavour) {
    case 0: {
      void* memory = NULL;
      CHECK_EQ(MPI_Alloc_mem(bytes, MPI_INFO_NULL, &memory), MPI_SUCCESS);
      CHECK_EQ(MPI_Win_create(memory, bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &win), MPI_SUCCESS);
      *(void**)base = memory;
      break;
    }
    case 1: CHECK_EQ(MPI_Win_allocate(bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, base, &win), MPI_SUCCESS); break;
    default:
      CHECK_EQ(MPI_Win_allocate_shared(bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, base, &win), MPI_SUCCESS);
      break;
  }
  return win;
}

static inline void end_window(int flavour, MPI_Win win, void* base) {
  CHECK_EQ(MPI_Win_free(&win), MPI_SUCCESS);
  CHECK(win == MPI_WIN_NULL);
  if (flavour == 0) CHECK_EQ(MPI_Free_mem(base), MPI_SUCCESS);
}

/* Whether all ranks can have a shared window; if not, MPI_Win_allocate_shared says so. */
static inline int shares_memory(int is_permitted) {
  if ((is_permitted && ranks_of_this_host() == world_size()) || world_size() == 1) return 1;
  int* base = NULL;
  MPI_Win win = MPI_WIN_NULL;
  CHECK_EQ(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_allocate_shared(4, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win), MPI_ERR_RMA_SHARED);
  CHECK_EQ(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL), MPI_SUCCESS);
  return 0;
}

/* The number of flavours that can be tested. */
static inline int flavours(int is_permitted) { return 2 + shares_memory(is_permitted); }

static inline int may_share_memory(void) {
  const char* const setting = getenv("OPAL_MPI_RMA_SHARE");
  return setting == NULL || strcmp(setting, "no") != 0;
}

#endif
