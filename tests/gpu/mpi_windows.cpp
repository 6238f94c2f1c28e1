// SPDX-License-Identifier: Apache-2.0
// One-sided MPI between two ranks with GPU memory on every side: windows of it, made and attached; origins, results and
// operands in it; and what becomes of an access whose copies the driver refuses.
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <vector>

#include "tests/gpu/mpi_memory.hpp"

namespace opal::gpu::test {
namespace {

constexpr int kSpread = 5'000;  // of what is not contiguous, and takes a copy of the driver for each integer
constexpr MPI_Aint kBytes = kCount * static_cast<MPI_Aint>(sizeof(int));

/// A window of this rank's memory; its errors are returned.
class Win {
 public:
  explicit Win(int* memory, int count = kCount) {
    CHECK(MPI_Win_create(memory, count * static_cast<MPI_Aint>(sizeof(int)), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                         &handle) == MPI_SUCCESS);
    MPI_Win_set_errhandler(handle, MPI_ERRORS_RETURN);
  }
  ~Win() { MPI_Win_free(&handle); }
  Win(const Win&) = delete;
  Win& operator=(const Win&) = delete;
  void fence() const { CHECK(MPI_Win_fence(0, handle) == MPI_SUCCESS); }
  MPI_Win handle{};
};

/// Integers of a window or of an access, on the GPU or not.
class Memory {
 public:
  Memory(bool on_gpu, const std::vector<int>& values) : host_(values), gpu_(values), on_gpu_(on_gpu) {}
  [[nodiscard]] int* data() { return on_gpu_ ? gpu_.data() : host_.data(); }
  [[nodiscard]] std::vector<int> read() const { return on_gpu_ ? gpu_.read() : host_; }

 private:
  std::vector<int> host_;
  Gpu gpu_;
  bool on_gpu_;
};

/// Runs `body` for each way in which a window and an access can have their memory, one of them at least on the GPU.
void for_each_side(const std::function<void(bool window_on_gpu, bool access_on_gpu)>& body) {
  body(true, true);
  body(true, false);
  body(false, true);
}

void puts_and_gets() {
  const EverySecond half{kSpread};
  for_each_side([&](bool window_on_gpu, bool access_on_gpu) {
    for (const int target : {other, rank}) {
      Memory memory{window_on_gpu, std::vector<int>(kCount, -1)};
      const Win win{memory.data()};
      Memory from{access_on_gpu, numbers(100 * rank)};
      win.fence();
      CHECK(MPI_Put(from.data(), kCount, MPI_INT, target, 0, kCount, MPI_INT, win.handle) == MPI_SUCCESS);
      win.fence();
      CHECK(memory.read() == numbers(100 * target));
      Memory to{access_on_gpu, std::vector<int>(kCount, -1)};
      CHECK(MPI_Get(to.data(), kCount, MPI_INT, target, 0, kCount, MPI_INT, win.handle) == MPI_SUCCESS);
      win.fence();
      CHECK(to.read() == numbers(100 * rank));
      Memory spread{access_on_gpu, std::vector<int>(kSpread, -1)};
      CHECK(MPI_Get(spread.data(), 1, half.type, target, 0, 1, half.type, win.handle) == MPI_SUCCESS);
      win.fence();
      CHECK(every_second_is(spread.read(), 100 * rank));
      CHECK(MPI_Put(spread.data(), 1, half.type, target, 0, kSpread / 2, MPI_INT, win.handle) == MPI_SUCCESS);
      win.fence();
      CHECK(memory.read()[9] == 100 * target + 18);
      MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win.handle);
      MPI_Request request;
      CHECK(MPI_Rget(to.data(), 10, MPI_INT, target, kCount - 10, 10, MPI_INT, win.handle, &request) == MPI_SUCCESS);
      CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
      MPI_Win_unlock(target, win.handle);
      CHECK(to.read()[9] == 100 * rank + kCount - 1);
    }
  });
  // What the processor cannot load from is not shared; what lies outside is refused.
  const Gpu memory;
  const Win win{memory.data()};
  MPI_Aint size = 1;
  int unit = 0;
  void* base = nullptr;
  CHECK(MPI_Win_shared_query(win.handle, rank, &size, &unit, static_cast<void*>(&base)) == MPI_SUCCESS);
  CHECK(size == 0 && base == nullptr);
  int value = 0;
  win.fence();
  CHECK(error_class(MPI_Put(&value, 1, MPI_INT, other, kCount, 1, MPI_INT, win.handle)) == MPI_ERR_RMA_RANGE);
  win.fence();
}

void updates() {
  const EverySecond half{kSpread};
  for_each_side([&](bool window_on_gpu, bool access_on_gpu) {
    for (const int target : {other, rank}) {
      Memory memory{window_on_gpu, numbers(1000 * rank)};
      const Win win{memory.data()};
      Memory from{access_on_gpu, numbers(1)};
      Memory before{access_on_gpu, std::vector<int>(kCount, -1)};
      win.fence();
      CHECK(MPI_Get_accumulate(from.data(), kCount, MPI_INT, before.data(), kCount, MPI_INT, target, 0, kCount, MPI_INT,
                               MPI_SUM, win.handle) == MPI_SUCCESS);
      win.fence();
      CHECK(before.read() == numbers(1000 * target));
      std::vector<int> now = memory.read();
      for (int i = 0; i < kCount; ++i) CHECK(now[static_cast<std::size_t>(i)] == 1000 * rank + 1 + 2 * i);
      MPI_Barrier(MPI_COMM_WORLD);  // the next access begins when both have looked
      CHECK(MPI_Accumulate(from.data(), 1, half.type, target, 0, 1, half.type, MPI_REPLACE, win.handle) == MPI_SUCCESS);
      win.fence();
      now = memory.read();
      CHECK(now[2] == 3 && now[3] == 1000 * rank + 7);
      MPI_Barrier(MPI_COMM_WORLD);
      CHECK(MPI_Accumulate(from.data(), 1, half.type, target, 1, kSpread / 2, MPI_INT, MPI_MAX, win.handle) ==
            MPI_SUCCESS);
      win.fence();
      CHECK(memory.read()[1] == 1000 * rank + 3);
      CHECK(MPI_Get_accumulate(nullptr, 0, MPI_INT, before.data(), 1, half.type, target, 0, 1, half.type, MPI_NO_OP,
                               win.handle) == MPI_SUCCESS);
      win.fence();
      CHECK(before.read()[2] == 3);
    }
  });
  // Values with an index, which have a gap between them in memory.
  struct Pair {
    double value;
    int index;
  };
  const Pair pairs[2] = {{1.5, 4}, {2.5, 6}};
  const Gpu memory{8};
  CHECK(cuMemcpyHtoD(reinterpret_cast<CUdeviceptr>(memory.data()), pairs, sizeof pairs) == CUDA_SUCCESS);
  const Win win{memory.data(), 8};
  const Pair mine[2] = {{1.0, 2}, {3.0, 1}};
  win.fence();
  CHECK(MPI_Accumulate(mine, 2, MPI_DOUBLE_INT, other, 0, 2, MPI_DOUBLE_INT, MPI_MINLOC, win.handle) == MPI_SUCCESS);
  win.fence();
  Pair found[2];
  CHECK(cuMemcpyDtoH(found, reinterpret_cast<CUdeviceptr>(memory.data()), sizeof found) == CUDA_SUCCESS);
  CHECK(found[0].value == 1.0 && found[0].index == 2 && found[1].value == 2.5 && found[1].index == 6);
}

/// Both ranks count in the memory of rank 0 at the same time, and no count is lost.
void counters() {
  constexpr int kEach = 200;
  for_each_side([&](bool window_on_gpu, bool access_on_gpu) {
    Memory memory{window_on_gpu, {0, -5}};
    const Win win{memory.data(), 2};
    Memory one{access_on_gpu, {1}};
    Memory result{access_on_gpu, {-1}};
    std::vector<int> mine;
    MPI_Win_lock_all(0, win.handle);
    for (int i = 0; i < kEach; ++i) {
      CHECK(MPI_Fetch_and_op(one.data(), result.data(), MPI_INT, 0, 0, MPI_SUM, win.handle) == MPI_SUCCESS);
      CHECK(MPI_Win_flush(0, win.handle) == MPI_SUCCESS);
      mine.push_back(result.read().front());
    }
    MPI_Win_unlock_all(win.handle);
    std::vector<int> all(2 * kEach);
    MPI_Allgather(mine.data(), kEach, MPI_INT, all.data(), kEach, MPI_INT, MPI_COMM_WORLD);
    std::ranges::sort(all);
    CHECK(all == numbers(0, 2 * kEach));
    // One of the two finds what it compares with.
    Memory value{access_on_gpu, {rank}};
    Memory expected{access_on_gpu, {-5}};
    MPI_Win_lock_all(0, win.handle);
    CHECK(MPI_Compare_and_swap(value.data(), expected.data(), result.data(), MPI_INT, 0, 1, win.handle) == MPI_SUCCESS);
    MPI_Win_unlock_all(win.handle);
    MPI_Barrier(MPI_COMM_WORLD);
    int found[2] = {result.read().front(), 0};
    MPI_Sendrecv(&found[0], 1, MPI_INT, other, 0, &found[1], 1, MPI_INT, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK((found[0] == -5) != (found[1] == -5));
    const int winner = found[0] == -5 ? rank : other;
    CHECK(std::max(found[0], found[1]) == winner);
    CHECK(rank != 0 || memory.read()[1] == winner);
  });
}

void attached_memory() {
  MPI_Win win;
  CHECK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win) == MPI_SUCCESS);
  MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  for (int repeat = 0; repeat < 3; ++repeat) {  // other memory at the same address
    const Gpu memory{numbers(repeat)};
    CHECK(MPI_Win_attach(win, memory.data(), kBytes) == MPI_SUCCESS);
    MPI_Aint mine;
    MPI_Aint theirs;
    MPI_Get_address(memory.data(), &mine);
    MPI_Sendrecv(&mine, 1, MPI_AINT, other, 0, &theirs, 1, MPI_AINT, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    const Gpu from{numbers(7)};
    const Gpu to;
    const int one = 1;
    MPI_Win_lock_all(0, win);
    CHECK(MPI_Get(to.data(), kCount, MPI_INT, other, theirs, kCount, MPI_INT, win) == MPI_SUCCESS);
    CHECK(MPI_Win_flush(other, win) == MPI_SUCCESS);
    CHECK(to.read() == numbers(repeat));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_Put(from.data(), kCount, MPI_INT, other, theirs, kCount, MPI_INT, win) == MPI_SUCCESS);
    CHECK(MPI_Win_flush(other, win) == MPI_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_Accumulate(&one, 1, MPI_INT, other, theirs, 1, MPI_INT, MPI_SUM, win) == MPI_SUCCESS);
    CHECK(MPI_Accumulate(&one, 1, MPI_INT, rank, mine + 4, 1, MPI_INT, MPI_SUM, win) == MPI_SUCCESS);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(memory.read()[0] == 8 && memory.read()[1] == 9 && memory.read()[2] == 9);
    CHECK(MPI_Win_detach(win, memory.data()) == MPI_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    int error = MPI_Put(from.data(), 1, MPI_INT, other, theirs, 1, MPI_INT, win);
    if (error == MPI_SUCCESS) error = MPI_Win_flush(other, win);
    CHECK(error_class(error) == MPI_ERR_RMA_RANGE);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Win_free(&win);
}

}  // namespace
}  // namespace opal::gpu::test

int main(int argc, char** argv) {
  using namespace opal::gpu::test;
  return run(argc, argv,
             {{"puts and gets", puts_and_gets},
              {"accumulates", updates},
              {"counters", counters},
              {"dynamic windows", attached_memory}});
}
