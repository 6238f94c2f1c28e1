// SPDX-License-Identifier: Apache-2.0
// Accesses to memory of the program: while the target polls inside MPI they need no system call, but for long gets, and
// while it computes they do not wait for it.  A target that sleeps inside MPI polls again soon.  In a fence epoch they
// are messages.
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "check.h"
#include "tests/harness/refused_call.hpp"

namespace {

constexpr int kRounds = 300;
constexpr int kAccesses = 35;  // of rank 0 in each half of a round
constexpr int kLong = 4096;    // words of a long access: two messages, also of a put (kMessagePuts)

/// A word that rank 1 has in memory which both ranks map.
struct SharedWord {
  SharedWord() {
    CHECK_EQ(MPI_Win_allocate_shared(my_rank() == 1 ? sizeof(std::int64_t) : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &word,
                                     &window),
             MPI_SUCCESS);
    MPI_Aint size = 0;
    int unit = 0;
    CHECK_EQ(MPI_Win_shared_query(window, 1, &size, &unit, &word), MPI_SUCCESS);
    if (my_rank() == 1) set(0);
    CHECK_EQ(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS);
  }
  ~SharedWord() { CHECK_EQ(MPI_Win_free(&window), MPI_SUCCESS); }
  void set(std::int64_t value) const { __atomic_store_n(word, value, __ATOMIC_RELEASE); }
  [[nodiscard]] std::int64_t get() const { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }

  std::int64_t* word = nullptr;
  MPI_Win window = MPI_WIN_NULL;
};

/// The accesses of rank 0 to the words of rank 1; each returns an error class.  Word 0 counts the updates, word 1 is
/// for puts, the next kLong words are for long accesses.
class Accesses {
 public:
  explicit Accesses(MPI_Win window) : window_(window) {}

  int put() {
    ++last_;
    const int error = MPI_Put(&last_, 1, MPI_INT64_T, 1, 1, 1, MPI_INT64_T, window_);
    return flush(error);
  }
  int get() {
    std::int64_t value = -1;
    const int error = flush(MPI_Get(&value, 1, MPI_INT64_T, 1, 0, 1, MPI_INT64_T, window_));
    if (error == MPI_SUCCESS) CHECK_EQ(value, updates);
    return error;
  }
  int accumulate() {
    const std::int64_t one = 1;
    return count(flush(MPI_Accumulate(&one, 1, MPI_INT64_T, 1, 0, 1, MPI_INT64_T, MPI_SUM, window_)));
  }
  int fetch_and_op() {
    const std::int64_t one = 1;
    std::int64_t before = -1;
    const int error = flush(MPI_Fetch_and_op(&one, &before, MPI_INT64_T, 1, 0, MPI_SUM, window_));
    if (error == MPI_SUCCESS) CHECK_EQ(before, updates);
    return count(error);
  }
  int compare_and_swap() {
    const std::int64_t next = updates + 1;
    std::int64_t before = -1;
    const int error = flush(MPI_Compare_and_swap(&next, &updates, &before, MPI_INT64_T, 1, 0, window_));
    if (error == MPI_SUCCESS) CHECK_EQ(before, updates);
    return count(error);
  }

  int put_long() {
    ++last_;
    const std::vector<std::int64_t> values(kLong, last_);
    const int error = flush(MPI_Put(values.data(), kLong, MPI_INT64_T, 1, 2, kLong, MPI_INT64_T, window_));
    if (error == MPI_SUCCESS) long_ = last_;
    return error;
  }
  int accumulate_long() {
    const std::vector<std::int64_t> values(kLong, 3);
    const int error =
        flush(MPI_Accumulate(values.data(), kLong, MPI_INT64_T, 1, 2, kLong, MPI_INT64_T, MPI_SUM, window_));
    if (error == MPI_SUCCESS) long_ += 3;
    return error;
  }
  int get_long() {
    std::vector<std::int64_t> values(kLong, -1);
    const int error = flush(MPI_Get(values.data(), kLong, MPI_INT64_T, 1, 2, kLong, MPI_INT64_T, window_));
    if (error == MPI_SUCCESS) CHECK_EQ(std::count(values.begin(), values.end(), long_), kLong);
    return error;
  }

  using Access = int (Accesses::*)();
  static constexpr std::array<Access, 8> kAll{
      &Accesses::put,          &Accesses::get,      &Accesses::accumulate,       &Accesses::put_long,
      &Accesses::fetch_and_op, &Accesses::get_long, &Accesses::compare_and_swap, &Accesses::accumulate_long};

  std::int64_t updates = 0;  // that have succeeded

 private:
  int flush(int error) const {
    const int flushed = MPI_Win_flush(1, window_);
    return error != MPI_SUCCESS ? error : flushed;
  }
  int count(int error) {
    if (error == MPI_SUCCESS) ++updates;
    return error;
  }

  const MPI_Win window_;
  std::int64_t last_ = 0;
  std::int64_t long_ = 0;  // the value of each word of the long accesses
};

void make_accesses(Accesses& accesses) {
  for (int i = 0; i < kAccesses; ++i) {
    const auto access = Accesses::kAll[static_cast<std::size_t>(i) % Accesses::kAll.size()];
    CHECK_EQ((accesses.*access)(), MPI_SUCCESS);
  }
}

/// In each round rank 1 waits for a message, then computes until all accesses of the round are complete.  The accesses
/// go on while it returns from the wait.
void alternate(Accesses& accesses, const SharedWord& complete) {
  for (int round = 1; round <= kRounds; ++round) {
    if (my_rank() == 1) {
      CHECK_EQ(MPI_Recv(nullptr, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_SUCCESS);
      while (complete.get() < round) sched_yield();
      continue;
    }
    make_accesses(accesses);
    CHECK_EQ(MPI_Send(nullptr, 0, MPI_BYTE, 1, 0, MPI_COMM_WORLD), MPI_SUCCESS);
    make_accesses(accesses);
    complete.set(round);
  }
}

/// Without the system calls every kind of access but a long get succeeds as soon as rank 1, which may sleep, polls.
/// Nothing but the accesses wakes it.  Of a long get, each rank copies a part, rank 0 by system calls.
void do_without_system_calls(Accesses& accesses) {
  if (my_rank() == 1) {
    CHECK_EQ(MPI_Recv(nullptr, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_SUCCESS);
    return;
  }
  opal::test::refuse_system_call(SYS_process_vm_readv, EIO);
  opal::test::refuse_system_call(SYS_process_vm_writev, EIO);
  for (const auto access : Accesses::kAll) {
    if (access == &Accesses::get_long) continue;
    for (int tries = 0; (accesses.*access)() != MPI_SUCCESS; ++tries) {
      CHECK(tries < 1'000'000);
      // How long rank 1 takes to poll again depends on the build.
      for (const double end = MPI_Wtime() + 10e-6 * (tries % 50); MPI_Wtime() < end;) continue;
    }
  }
  CHECK_EQ(MPI_Send(nullptr, 0, MPI_BYTE, 1, 0, MPI_COMM_WORLD), MPI_SUCCESS);
}

/// In a fence epoch no call of an access waits for rank 1, which computes until all are posted, and none needs a system
/// call, long or short: rank 1 executes them in its fence.
void access_between_fences(MPI_Win window, const SharedWord& complete, std::vector<std::int64_t>& words) {
  constexpr int kHalf = kLong / 2;
  constexpr int kLast = 1 + kLong;
  if (my_rank() == 1) std::fill(words.begin(), words.end(), 0);
  CHECK_EQ(MPI_Win_fence(0, window), MPI_SUCCESS);
  const std::array<std::int64_t, 5> numbers{7, 2, 3, 9, 0};
  const std::vector<std::int64_t> fives(kHalf, 5);
  const std::vector<std::int64_t> threes(kHalf, 3);
  std::vector<std::int64_t> half(kHalf, -1);
  std::int64_t fetched = -1;
  std::int64_t found = -1;
  if (my_rank() == 0) {
    CHECK_EQ(MPI_Put(&numbers[0], 1, MPI_INT64_T, 1, 1, 1, MPI_INT64_T, window), MPI_SUCCESS);
    CHECK_EQ(MPI_Accumulate(&numbers[1], 1, MPI_INT64_T, 1, 0, 1, MPI_INT64_T, MPI_SUM, window), MPI_SUCCESS);
    CHECK_EQ(MPI_Put(fives.data(), kHalf, MPI_INT64_T, 1, 2, kHalf, MPI_INT64_T, window), MPI_SUCCESS);
    CHECK_EQ(
        MPI_Accumulate(threes.data(), kHalf - 1, MPI_INT64_T, 1, 2 + kHalf, kHalf - 1, MPI_INT64_T, MPI_SUM, window),
        MPI_SUCCESS);
    CHECK_EQ(MPI_Fetch_and_op(&numbers[2], &fetched, MPI_INT64_T, 1, 0, MPI_SUM, window), MPI_SUCCESS);
    CHECK_EQ(MPI_Compare_and_swap(&numbers[3], &numbers[4], &found, MPI_INT64_T, 1, kLast, window), MPI_SUCCESS);
    complete.set(kRounds + 1);
  } else {
    while (complete.get() <= kRounds) sched_yield();
  }
  CHECK_EQ(MPI_Win_fence(0, window), MPI_SUCCESS);
  if (my_rank() == 1) {
    CHECK_EQ(words[0], 5);
    CHECK_EQ(words[1], 7);
    CHECK_EQ(std::count(words.begin() + 2, words.begin() + 2 + kHalf, 5), kHalf);
    CHECK_EQ(std::count(words.begin() + 2 + kHalf, words.end(), 3), kHalf - 1);
    CHECK_EQ(words[kLast], 9);
  } else {
    CHECK_EQ(fetched, 2);
    CHECK_EQ(found, 0);
    CHECK_EQ(MPI_Put(&numbers[0], 1, MPI_INT64_T, 1, 1, 1, MPI_INT64_T, window), MPI_SUCCESS);
    CHECK_EQ(MPI_Get(half.data(), kHalf, MPI_INT64_T, 1, 2, kHalf, MPI_INT64_T, window), MPI_SUCCESS);
  }
  CHECK_EQ(MPI_Win_fence(MPI_MODE_NOSUCCEED, window), MPI_SUCCESS);
  if (my_rank() == 0) CHECK_EQ(std::count(half.begin(), half.end(), 5), kHalf);
}

void run() {
  const SharedWord complete;
  std::vector<std::int64_t> words(2 + kLong);
  MPI_Win window;
  CHECK_EQ(MPI_Win_create(words.data(), static_cast<MPI_Aint>(words.size() * sizeof words[0]), sizeof words[0],
                          MPI_INFO_NULL, MPI_COMM_WORLD, &window),
           MPI_SUCCESS);
  CHECK_EQ(MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN), MPI_SUCCESS);
  Accesses accesses{window};
  if (my_rank() == 0) CHECK_EQ(MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, window), MPI_SUCCESS);
  alternate(accesses, complete);
  if (sysconf(_SC_NPROCESSORS_ONLN) > 1) {
    do_without_system_calls(accesses);
  } else if (my_rank() == 0) {
    printf("skipped: without system calls: needs 2 cores\n");
  }
  if (my_rank() == 0) CHECK_EQ(MPI_Win_unlock(1, window), MPI_SUCCESS);
  CHECK_EQ(MPI_Bcast(&accesses.updates, 1, MPI_INT64_T, 0, MPI_COMM_WORLD), MPI_SUCCESS);
  if (my_rank() == 1) CHECK_EQ(words[0], accesses.updates);
  access_between_fences(window, complete, words);
  CHECK_EQ(MPI_Win_free(&window), MPI_SUCCESS);
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(MPI_Init(&argc, &argv) == MPI_SUCCESS);
  run();
  CHECK(MPI_Finalize() == MPI_SUCCESS);
  return 0;
}
