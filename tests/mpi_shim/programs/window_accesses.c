/* SPDX-License-Identifier: Apache-2.0
 * Accesses to windows, checked with any number of ranks and over any transport: datatypes, accumulates of each kind of
 * element, atomics, and more data than a message has. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "window.h"

enum { kCount = 1000 };

/* A strided column at the origin, other strides at the target: the bytes land where they belong and nowhere else. */
static void derived_types(int flavour) {
  const int rank = my_rank();
  const int size = world_size();
  const int next = (rank + 1) % size;
  const int previous = (rank + size - 1) % size;
  int* base = NULL;
  MPI_Win win = make_window(flavour, 400 * sizeof(int), sizeof(int), &base);
  MPI_Datatype column;
  MPI_Datatype scattered;
  int matrix[10][10];
  int lengths[] = {1, 3, 2, 4};
  int places[] = {100, 7, 50, 200};
  for (int i = 0; i < 100; ++i) matrix[i / 10][i % 10] = 1000 * rank + i;
  for (int i = 0; i < 400; ++i) base[i] = -1;
  CHECK_EQ(MPI_Type_vector(10, 1, 10, MPI_INT, &column), MPI_SUCCESS);
  CHECK_EQ(MPI_Type_indexed(4, lengths, places, MPI_INT, &scattered), MPI_SUCCESS);
  CHECK_EQ(MPI_Type_commit(&column), MPI_SUCCESS);
  CHECK_EQ(MPI_Type_commit(&scattered), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Put(&matrix[0][3], 1, column, next, 1, 1, scattered, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  int expected[400];
  for (int i = 0; i < 400; ++i) expected[i] = -1;
  for (int block = 0, n = 0; block < 4; ++block) {
    for (int i = 0; i < lengths[block]; ++i, ++n) expected[1 + places[block] + i] = 1000 * previous + 10 * n + 3;
  }
  for (int i = 0; i < 400; ++i) CHECK_EQ(base[i], expected[i]);
  int back[10][10];
  memset(back, 0, sizeof back);
  CHECK_EQ(MPI_Get(&back[0][5], 1, column, next, 1, 1, scattered, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  for (int i = 0; i < 100; ++i) CHECK_EQ(back[i / 10][i % 10], i % 10 == 5 ? 1000 * rank + 10 * (i / 10) + 3 : 0);
  /* The same elements once more, added. */
  CHECK_EQ(MPI_Accumulate(&matrix[0][3], 1, column, next, 1, 1, scattered, MPI_SUM, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Type_free(&column), MPI_SUCCESS); /* while it is in use */
  CHECK_EQ(MPI_Type_free(&scattered), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  for (int i = 0; i < 400; ++i) CHECK_EQ(base[i], expected[i] == -1 ? -1 : 2 * expected[i]);
  end_window(flavour, win, base);
}

/* Targets of so many blocks at irregular places that their list takes several messages; the blocks go backwards. */
static void many_blocks(int flavour) {
  enum { kBlocks = 300, kLength = 12 * kBlocks };
  const int rank = my_rank();
  const int next = (rank + 1) % world_size();
  const int previous = (rank + world_size() - 1) % world_size();
  int lengths[kBlocks];
  int places[kBlocks];
  int elements = 0;
  for (int i = 0; i < kBlocks; ++i) {
    lengths[i] = 1 + i * i % 7;
    places[i] = 12 * (kBlocks - 1 - i) + i % 5;
    elements += lengths[i];
  }
  int* base = NULL;
  MPI_Win win = make_window(flavour, kLength * sizeof(int), sizeof(int), &base);
  for (int i = 0; i < kLength; ++i) base[i] = -1;
  MPI_Datatype type;
  CHECK_EQ(MPI_Type_indexed(kBlocks, lengths, places, MPI_INT, &type), MPI_SUCCESS);
  CHECK_EQ(MPI_Type_commit(&type), MPI_SUCCESS);
  int* values = malloc(2 * (size_t)elements * sizeof(int));
  int* back = values + elements;
  for (int i = 0; i < elements; ++i) values[i] = 100000 * rank + i;
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Put(values, elements, MPI_INT, next, 0, 1, type, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Get_accumulate(values, elements, MPI_INT, back, elements, MPI_INT, next, 0, 1, type, MPI_SUM, win),
           MPI_SUCCESS);
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  for (int i = 0; i < elements; ++i) CHECK_EQ(back[i], values[i]);
  CHECK_EQ(MPI_Get(back, elements, MPI_INT, next, 0, 1, type, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  int set = 0;
  for (int block = 0, n = 0; block < kBlocks; ++block) {
    for (int i = 0; i < lengths[block]; ++i, ++n) {
      CHECK_EQ(back[n], 2 * values[n]);
      CHECK_EQ(base[places[block] + i], 2 * (100000 * previous + n));
    }
  }
  for (int i = 0; i < kLength; ++i) set += base[i] != -1;
  CHECK_EQ(set, elements);
  CHECK_EQ(MPI_Type_free(&type), MPI_SUCCESS);
  free(values);
  end_window(flavour, win, base);
}

/* All ranks add to all ranks at once: every element is updated atomically. */
static void accumulates(int flavour) {
  const int size = world_size();
  enum { kElements = 3000 };
  double* base = NULL;
  MPI_Win win = make_window(flavour, kElements * sizeof(double), sizeof(double), &base);
  double* ones = malloc(kElements * sizeof(double));
  for (int i = 0; i < kElements; ++i) {
    base[i] = i;
    ones[i] = 1;
  }
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  for (int round = 0; round < 3; ++round) {
    for (int target = 0; target < size; ++target) {
      CHECK_EQ(MPI_Accumulate(ones, kElements, MPI_DOUBLE, target, 0, kElements, MPI_DOUBLE, MPI_SUM, win),
               MPI_SUCCESS);
    }
  }
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  for (int i = 0; i < kElements; ++i) CHECK(base[i] == i + 3.0 * size);
  free(ones);
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  /* Accumulates of one origin to one place keep their order. */
  double value;
  for (int i = 1; i <= 50; ++i) {
    value = i;
    if (my_rank() == 0) {
      double last = -1;
      CHECK_EQ(
          MPI_Get_accumulate(&value, 1, MPI_DOUBLE, &last, 1, MPI_DOUBLE, size - 1, 5, 1, MPI_DOUBLE, MPI_REPLACE, win),
          MPI_SUCCESS);
      double now = -1;
      CHECK_EQ(MPI_Get_accumulate(NULL, 0, MPI_DOUBLE, &now, 1, MPI_DOUBLE, size - 1, 5, 1, MPI_DOUBLE, MPI_NO_OP, win),
               MPI_SUCCESS);
      CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
      CHECK(now == i);
      CHECK(last == (i == 1 ? 5 + 3.0 * size : i - 1));
    } else {
      CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
    }
  }
  end_window(flavour, win, base);
}

struct place {
  double value;
  int index;
};

/* Value and index have a gap behind them, which is not used. */
static void pairs(int flavour) {
  struct place* base = NULL;
  MPI_Win win = make_window(flavour, 4 * sizeof(struct place), sizeof(struct place), &base);
  memset(base, 0x5a, 4 * sizeof(struct place));
  for (int i = 0; i < 4; ++i) {
    base[i].value = -1;
    base[i].index = -1;
  }
  struct place mine[4];
  for (int i = 0; i < 4; ++i) {
    mine[i].value = (i + my_rank()) % world_size();
    mine[i].index = my_rank();
  }
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  for (int target = 0; target < world_size(); ++target) {
    CHECK_EQ(MPI_Accumulate(mine, 4, MPI_DOUBLE_INT, target, 0, 4, MPI_DOUBLE_INT, MPI_MAXLOC, win), MPI_SUCCESS);
  }
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  for (int i = 0; i < 4; ++i) {
    const int highest = world_size() - 1;
    CHECK(base[i].value == highest);
    CHECK_EQ((base[i].index + i) % world_size(), highest);
    CHECK_EQ(((unsigned char*)&base[i])[sizeof(struct place) - 1], 0x5a);
  }
  end_window(flavour, win, base);
}

struct short_place {
  short value;
  int index;
};

/* The gap is inside of the pair, and the type of the target lists its pairs backwards. */
static void pairs_with_a_gap_inside(int flavour) {
  enum { kPairs = 5 };
  struct short_place* base = NULL;
  const MPI_Aint bytes = 2 * kPairs * sizeof(struct short_place);
  MPI_Win win = make_window(flavour, bytes, 1, &base);
  memset(base, 0x5a, (size_t)bytes);
  struct short_place mine[kPairs];
  for (int i = 0; i < kPairs; ++i) {
    base[2 * i].value = base[2 * i].index = -1;
    mine[i].value = (short)(10 * i + my_rank());
    mine[i].index = my_rank();
  }
  MPI_Datatype type;
  CHECK_EQ(MPI_Type_vector(kPairs, 1, -2, MPI_SHORT_INT, &type), MPI_SUCCESS);
  CHECK_EQ(MPI_Type_commit(&type), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  const MPI_Aint last = (2 * kPairs - 2) * sizeof(struct short_place);
  for (int target = 0; target < world_size(); ++target) {
    CHECK_EQ(MPI_Accumulate(mine, kPairs, MPI_SHORT_INT, target, last, 1, type, MPI_MAXLOC, win), MPI_SUCCESS);
  }
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  for (int i = 0; i < kPairs; ++i) {
    const struct short_place* const pair = &base[2 * (kPairs - 1 - i)];
    CHECK_EQ(pair->value, 10 * i + world_size() - 1);
    CHECK_EQ(pair->index, world_size() - 1);
    CHECK_EQ(((const unsigned char*)pair)[sizeof(short)], 0x5a);
    CHECK_EQ(pair[1].value, 0x5a5a);
  }
  CHECK_EQ(MPI_Type_free(&type), MPI_SUCCESS);
  end_window(flavour, win, base);
}

/* So many pairs that they take several messages.  Short ones: the index of one and the value of the next are one run of
 * memory, so that a message ends within a run.  Packed ones: they are closer together than in an array of
 * MPI_DOUBLE_INT. */
static void many_pairs(int flavour) {
  enum { kPairs = 4000, kPacked = 12 };
  const int next = (my_rank() + 1) % world_size();
  const int previous = (my_rank() + world_size() - 1) % world_size();
  char* base = NULL;
  const MPI_Aint bytes = kPairs * (sizeof(struct short_place) + kPacked);
  MPI_Win win = make_window(flavour, bytes, 1, &base);
  memset(base, 0, (size_t)bytes);
  struct short_place* short_pairs = calloc(kPairs, sizeof *short_pairs);
  struct place* pairs = calloc(kPairs, sizeof *pairs);
  for (int i = 0; i < kPairs; ++i) {
    short_pairs[i].value = (short)(i % 1000 + 1);
    short_pairs[i].index = pairs[i].index = 10 * i + my_rank();
    pairs[i].value = i + 0.5;
  }
  MPI_Datatype packed;
  CHECK_EQ(MPI_Type_create_resized(MPI_DOUBLE_INT, 0, kPacked, &packed), MPI_SUCCESS);
  CHECK_EQ(MPI_Type_commit(&packed), MPI_SUCCESS);
  const MPI_Aint behind = kPairs * sizeof(struct short_place);
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Accumulate(short_pairs, kPairs, MPI_SHORT_INT, next, 0, kPairs, MPI_SHORT_INT, MPI_MAXLOC, win),
           MPI_SUCCESS);
  CHECK_EQ(MPI_Accumulate(pairs, kPairs, MPI_DOUBLE_INT, next, behind, kPairs, packed, MPI_MAXLOC, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  for (int i = 0; i < kPairs; ++i) {
    struct short_place here;
    memcpy(&here, base + (size_t)i * sizeof here, sizeof here);
    CHECK_EQ(here.value, i % 1000 + 1);
    CHECK_EQ(here.index, 10 * i + previous);
    double value;
    int index;
    memcpy(&value, base + behind + (size_t)i * kPacked, sizeof value);
    memcpy(&index, base + behind + (size_t)i * kPacked + sizeof value, sizeof index);
    CHECK(value == i + 0.5);
    CHECK_EQ(index, 10 * i + previous);
  }
  CHECK_EQ(MPI_Type_free(&packed), MPI_SUCCESS);
  free(pairs);
  free(short_pairs);
  end_window(flavour, win, base);
}

/* A counter and a lock out of fetch-and-op and compare-and-swap, all ranks at once. */
static void atomics(int flavour) {
  const int size = world_size();
  int64_t* base = NULL;
  MPI_Win win = make_window(flavour, 4 * sizeof(int64_t), sizeof(int64_t), &base);
  memset(base, 0, 4 * sizeof(int64_t));
  CHECK_EQ(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS);
  enum { kRounds = 60 };
  const int64_t one = 1;
  int64_t last = -1;
  CHECK_EQ(MPI_Win_lock_all(0, win), MPI_SUCCESS);
  for (int i = 0; i < kRounds; ++i) {
    int64_t ticket = -1;
    CHECK_EQ(MPI_Fetch_and_op(&one, &ticket, MPI_INT64_T, 0, 0, MPI_SUM, win), MPI_SUCCESS);
    CHECK_EQ(MPI_Win_flush(0, win), MPI_SUCCESS);
    CHECK(ticket > last && ticket < (int64_t)kRounds * size);
    last = ticket;
  }
  for (int i = 0; i < kRounds; ++i) {
    const int64_t wanted = my_rank() + 1;
    const int64_t unlocked = 0;
    int64_t holder = -1;
    do {
      CHECK_EQ(MPI_Compare_and_swap(&wanted, &unlocked, &holder, MPI_INT64_T, size - 1, 1, win), MPI_SUCCESS);
      CHECK_EQ(MPI_Win_flush(size - 1, win), MPI_SUCCESS);
    } while (holder != 0);
    /* Under that lock: read, add and write are three accesses. */
    int64_t count = -1;
    CHECK_EQ(MPI_Get(&count, 1, MPI_INT64_T, size - 1, 2, 1, MPI_INT64_T, win), MPI_SUCCESS);
    CHECK_EQ(MPI_Win_flush(size - 1, win), MPI_SUCCESS);
    ++count;
    CHECK_EQ(MPI_Put(&count, 1, MPI_INT64_T, size - 1, 2, 1, MPI_INT64_T, win), MPI_SUCCESS);
    CHECK_EQ(MPI_Win_flush(size - 1, win), MPI_SUCCESS);
    CHECK_EQ(MPI_Fetch_and_op(&unlocked, &holder, MPI_INT64_T, size - 1, 1, MPI_REPLACE, win), MPI_SUCCESS);
    CHECK_EQ(MPI_Win_flush(size - 1, win), MPI_SUCCESS);
    CHECK_EQ(holder, wanted);
  }
  CHECK_EQ(MPI_Win_unlock_all(win), MPI_SUCCESS);
  CHECK_EQ(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_lock(MPI_LOCK_SHARED, my_rank(), 0, win), MPI_SUCCESS);
  if (my_rank() == 0) CHECK_EQ(base[0], (int64_t)kRounds * size);
  if (my_rank() == size - 1) CHECK_EQ(base[2], (int64_t)kRounds * size);
  CHECK_EQ(MPI_Win_unlock(my_rank(), win), MPI_SUCCESS);
  end_window(flavour, win, base);
}

/* More data than one message carries, in every direction and kind. */
static void large(int flavour) {
  const int next = (my_rank() + 1) % world_size();
  const int previous = (my_rank() + world_size() - 1) % world_size();
  enum { kInts = 500000 };
  int* base = NULL;
  MPI_Win win = make_window(flavour, (MPI_Aint)kInts * 4, 4, &base);
  int* out = malloc((size_t)kInts * 4);
  int* in = malloc((size_t)kInts * 4);
  MPI_Datatype every_other;
  CHECK_EQ(MPI_Type_vector(kInts / 2, 1, 2, MPI_INT, &every_other), MPI_SUCCESS);
  CHECK_EQ(MPI_Type_commit(&every_other), MPI_SUCCESS);
  for (int i = 0; i < kInts; ++i) {
    out[i] = 7 * i + my_rank();
    base[i] = 0;
  }
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Put(out, kInts, MPI_INT, next, 0, kInts, MPI_INT, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  for (int i = 0; i < kInts; ++i) CHECK_EQ(base[i], 7 * i + previous);
  CHECK_EQ(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS);
  CHECK_EQ(MPI_Get_accumulate(out, kInts, MPI_INT, in, kInts, MPI_INT, next, 0, kInts, MPI_INT, MPI_SUM, win),
           MPI_SUCCESS);
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  for (int i = 0; i < kInts; ++i) {
    CHECK_EQ(in[i], 7 * i + my_rank());
    CHECK_EQ(base[i], 2 * (7 * i + previous));
  }
  CHECK_EQ(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS);
  CHECK_EQ(MPI_Put(out, kInts / 2, MPI_INT, next, 1, 1, every_other, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  for (int i = 0; i < kInts; ++i) {
    CHECK_EQ(base[i], i % 2 == 0 ? 2 * (7 * i + previous) : 7 * (i / 2) + previous);
  }
  CHECK_EQ(MPI_Get(in, 1, every_other, next, 1, kInts / 2, MPI_INT, win), MPI_SUCCESS);
  CHECK_EQ(MPI_Win_fence(0, win), MPI_SUCCESS);
  for (int i = 0; i < kInts / 2; ++i) {
    const int place = 1 + i; /* at the next rank, whose previous one is this */
    CHECK_EQ(in[2 * i], place % 2 == 0 ? 2 * (7 * place + my_rank()) : 7 * (place / 2) + my_rank());
  }
  CHECK_EQ(MPI_Type_free(&every_other), MPI_SUCCESS);
  free(out);
  free(in);
  end_window(flavour, win, base);
}

int main(int argc, char** argv) {
  CHECK(MPI_Init(&argc, &argv) == MPI_SUCCESS);
  const int last = flavours(may_share_memory());
  for (int flavour = 0; flavour < last; ++flavour) {
    derived_types(flavour);
    many_blocks(flavour);
    accumulates(flavour);
    pairs(flavour);
    pairs_with_a_gap_inside(flavour);
    many_pairs(flavour);
    atomics(flavour);
    large(flavour);
  }
  CHECK(MPI_Finalize() == MPI_SUCCESS);
  return 0;
}
