// SPDX-License-Identifier: Apache-2.0
// An MPI program whose buffers are GPU memory: messages of every size and mode, derived types, collectives; GPU memory
// on all ranks, or on every second one only.  Checks its own results; any number of ranks from 2 on.
#include "tests/gpu/cuda_test_api.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <vector>

#include "mpi-ext.h"
#include "tests/mpi_shim/programs/check.h"

namespace {

int rank = 0;
int ranks = 0;

/// Elements in GPU memory, or in the host's.
class Elements {
 public:
  Elements(std::size_t count, bool on_gpu, int fill = -1) : host_(on_gpu ? 0 : count + 1, fill), count_(count) {
    if (!on_gpu) return;
    CHECK(cuMemAlloc(&device_, (count + 1) * sizeof(int)) == CUDA_SUCCESS);
    write(std::vector<int>(count, fill));
  }
  ~Elements() {
    if (device_ != 0) cuMemFree(device_);
  }
  Elements(const Elements&) = delete;
  Elements& operator=(const Elements&) = delete;

  [[nodiscard]] int* data() { return device_ != 0 ? reinterpret_cast<int*>(device_) : host_.data(); }
  void write(const std::vector<int>& values) {
    if (device_ == 0) {
      std::copy(values.begin(), values.end(), host_.begin());
    } else if (!values.empty()) {
      CHECK(cuMemcpyHtoD(device_, values.data(), values.size() * sizeof(int)) == CUDA_SUCCESS);
    }
  }
  [[nodiscard]] std::vector<int> read() const {
    std::vector<int> values(count_);
    if (device_ == 0) {
      std::copy_n(host_.begin(), count_, values.begin());
    } else if (count_ != 0) {
      CHECK(cuMemcpyDtoH(values.data(), device_, count_ * sizeof(int)) == CUDA_SUCCESS);
    }
    return values;
  }

 private:
  std::vector<int> host_;
  CUdeviceptr device_ = 0;
  std::size_t count_;
};

std::vector<int> numbers(std::size_t count, int first) {
  std::vector<int> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

/// Where this rank has its buffers: all on the GPU, or every second rank.
using Place = std::function<bool(int)>;

void messages(const Place& on_gpu) {
  const int next = (rank + 1) % ranks;
  const int before = (rank + ranks - 1) % ranks;
  for (int round = 0; round < 3; ++round) {  // the first finds out what the devices can do
    for (const std::size_t count : {0u, 1u, 7u, 900u, 5'000u, 70'001u, 600'000u}) {
      Elements out{count, on_gpu(rank)};
      Elements in{count, on_gpu(rank)};
      out.write(numbers(count, 1000 * rank + round));
      const auto expected = numbers(count, 1000 * before + round);
      const int n = static_cast<int>(count);
      MPI_Request receive = MPI_REQUEST_NULL;
      MPI_Request send = MPI_REQUEST_NULL;
      CHECK(MPI_Irecv(in.data(), n, MPI_INT, before, round, MPI_COMM_WORLD, &receive) == MPI_SUCCESS);
      if (round == 0) {
        CHECK(MPI_Send(out.data(), n, MPI_INT, next, round, MPI_COMM_WORLD) == MPI_SUCCESS);
      } else if (round == 1) {
        CHECK(MPI_Ssend(out.data(), n, MPI_INT, next, round, MPI_COMM_WORLD) == MPI_SUCCESS);
      } else {
        CHECK(MPI_Isend(out.data(), n, MPI_INT, next, round, MPI_COMM_WORLD, &send) == MPI_SUCCESS);
      }
      MPI_Status status;
      CHECK(MPI_Wait(&receive, &status) == MPI_SUCCESS);
      CHECK(MPI_Wait(&send, MPI_STATUS_IGNORE) == MPI_SUCCESS);
      int got = -1;
      MPI_Get_count(&status, MPI_INT, &got);
      CHECK(got == n);
      CHECK(in.read() == expected);
      in.write(std::vector<int>(count, -1));
      CHECK(MPI_Sendrecv(out.data(), n, MPI_INT, rank, 9, in.data(), n, MPI_INT, rank, 9, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE) == MPI_SUCCESS);
      CHECK(in.read() == numbers(count, 1000 * rank + round));
    }
  }
  // An unexpected message.
  Elements early{40'000, on_gpu(rank)};
  early.write(numbers(40'000, rank));
  MPI_Request send;
  MPI_Isend(early.data(), 40'000, MPI_INT, next, 5, MPI_COMM_WORLD, &send);
  MPI_Status status;
  MPI_Probe(before, 5, MPI_COMM_WORLD, &status);
  Elements late{40'000, on_gpu(rank)};
  MPI_Recv(late.data(), 40'000, MPI_INT, before, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Wait(&send, MPI_STATUS_IGNORE);
  CHECK(late.read() == numbers(40'000, before));
}

void derived_types(const Place& on_gpu) {
  const int next = (rank + 1) % ranks;
  const int before = (rank + ranks - 1) % ranks;
  for (const int blocks : {3, 500}) {
    MPI_Datatype columns;
    MPI_Type_vector(blocks, 2, 5, MPI_INT, &columns);
    MPI_Type_commit(&columns);
    const auto count = static_cast<std::size_t>(blocks) * 5;
    Elements out{count, on_gpu(rank)};
    Elements in{count, on_gpu(rank)};
    out.write(numbers(count, 10'000 * rank));
    MPI_Sendrecv(out.data(), 1, columns, next, 1, in.data(), 1, columns, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    const auto theirs = numbers(count, 10'000 * before);
    const auto found = in.read();
    for (std::size_t i = 0; i < count; ++i) CHECK(found[i] == (i % 5 < 2 ? theirs[i] : -1));
    MPI_Type_free(&columns);
  }
}

void collectives(const Place& on_gpu) {
  const bool here = on_gpu(rank);
  const auto n = static_cast<std::size_t>(ranks);
  for (const std::size_t count : {1u, 33u, 3'000u, 40'000u}) {
    const int c = static_cast<int>(count);
    const int sum_of_ranks = ranks * (ranks - 1) / 2;
    std::vector<int> sum(count);
    for (std::size_t i = 0; i < count; ++i) sum[i] = sum_of_ranks + ranks * static_cast<int>(i);
    for (int repeat = 0; repeat < 2; ++repeat) {  // later ones go through shared memory
      Elements mine{count, here};
      Elements result{count, here};
      mine.write(numbers(count, rank));
      CHECK(MPI_Allreduce(mine.data(), result.data(), c, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
      CHECK(result.read() == sum);
      result.write(numbers(count, rank));
      CHECK(MPI_Allreduce(MPI_IN_PLACE, result.data(), c, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
      CHECK(result.read() == sum);
      result.write(std::vector<int>(count, -1));
      CHECK(MPI_Reduce(mine.data(), result.data(), c, MPI_INT, MPI_SUM, ranks - 1, MPI_COMM_WORLD) == MPI_SUCCESS);
      CHECK(rank != ranks - 1 || result.read() == sum);
      result.write(std::vector<int>(count, -1));
      CHECK(MPI_Scan(mine.data(), result.data(), c, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
      CHECK(result.read()[0] == rank * (rank + 1) / 2);
      MPI_Request request;
      result.write(std::vector<int>(count, -1));
      CHECK(MPI_Iallreduce(mine.data(), result.data(), c, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request) == MPI_SUCCESS);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      CHECK(result.read() == sum);

      result.write(rank == 0 ? numbers(count, 77) : std::vector<int>(count, -1));
      CHECK(MPI_Bcast(result.data(), c, MPI_INT, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
      CHECK(result.read() == numbers(count, 77));

      Elements all{count * n, here};
      std::vector<int> all_values;
      for (int r = 0; r < ranks; ++r) {
        const auto theirs = numbers(count, r);
        all_values.insert(all_values.end(), theirs.begin(), theirs.end());
      }
      CHECK(MPI_Allgather(mine.data(), c, MPI_INT, all.data(), c, MPI_INT, MPI_COMM_WORLD) == MPI_SUCCESS);
      CHECK(all.read() == all_values);
      all.write(std::vector<int>(count * n, -1));
      CHECK(MPI_Gather(mine.data(), c, MPI_INT, all.data(), c, MPI_INT, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
      CHECK(rank != 0 || all.read() == all_values);
      CHECK(MPI_Scatter(all.data(), c, MPI_INT, result.data(), c, MPI_INT, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
      CHECK(result.read() == numbers(count, rank));

      Elements out{count * n, here};
      out.write(all_values);
      CHECK(MPI_Alltoall(out.data(), c, MPI_INT, all.data(), c, MPI_INT, MPI_COMM_WORLD) == MPI_SUCCESS);
      const auto got = all.read();
      for (std::size_t i = 0; i < count * n; ++i) CHECK(got[i] == rank + static_cast<int>(i % count));
      CHECK(MPI_Reduce_scatter_block(out.data(), result.data(), c, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
      const auto part = result.read();
      for (std::size_t i = 0; i < count; ++i) CHECK(part[i] == ranks * (rank + static_cast<int>(i)));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  CUcontext context = nullptr;
  CHECK(cuInit(0) == CUDA_SUCCESS);
  CHECK(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS);
  CHECK(MPIX_Query_cuda_support() == 1);
  for (const Place& place : {Place{[](int) { return true; }}, Place{[](int r) { return r % 2 == 0; }}}) {
    messages(place);
    derived_types(place);
    collectives(place);
  }
  MPI_Finalize();
  cuDevicePrimaryCtxRelease(0);
  if (rank == 0) std::printf("%d ranks with GPU memory: all right\n", ranks);
  return 0;
}
