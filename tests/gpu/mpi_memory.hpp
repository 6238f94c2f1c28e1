// SPDX-License-Identifier: Apache-2.0
// tests/gpu/mpi_memory.hpp — what the MPI programs that test buffers in GPU memory share: numbers on a GPU, a driver
// that refuses, groups of checks between two ranks.  They run on the double or on a real GPU.
#pragma once
#include "tests/gpu/cuda_test_api.hpp"

#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <numeric>
#include <vector>

#include "mpi.h"
#include "tests/gpu/double/control.hpp"
#include "tests/mpi_shim/programs/check.h"

namespace opal::gpu::test {

inline int rank = 0;
inline int ranks = 0;
inline int other = 0;  ///< the rank of the other one, of two

inline constexpr int kCount = 100'000;  // beyond every eager limit, also half of it

inline std::vector<int> numbers(int first, int count = kCount) {
  std::vector<int> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), first);
  return values;
}

/// Integers on the GPU.
class Gpu {
 public:
  explicit Gpu(const std::vector<int>& values) : count_(values.size()) {
    CHECK(cuMemAlloc(&device_, count_ * sizeof(int)) == CUDA_SUCCESS);
    CHECK(cuMemcpyHtoD(device_, values.data(), count_ * sizeof(int)) == CUDA_SUCCESS);
  }
  explicit Gpu(int count = kCount) : Gpu(std::vector<int>(static_cast<std::size_t>(count), -1)) {}
  ~Gpu() { cuMemFree(device_); }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  [[nodiscard]] int* data() const { return reinterpret_cast<int*>(device_); }
  [[nodiscard]] std::vector<int> read() const {
    std::vector<int> values(count_);
    CHECK(cuMemcpyDtoH(values.data(), device_, count_ * sizeof(int)) == CUDA_SUCCESS);
    return values;
  }

 private:
  CUdeviceptr device_ = 0;
  std::size_t count_;
};

/// Every second one of `count` integers, so that nothing is contiguous.
struct EverySecond {
  explicit EverySecond(int count = kCount) {
    MPI_Type_vector(count / 2, 1, 2, MPI_INT, &type);
    MPI_Type_commit(&type);
  }
  ~EverySecond() { MPI_Type_free(&type); }
  EverySecond(const EverySecond&) = delete;
  EverySecond& operator=(const EverySecond&) = delete;
  MPI_Datatype type{};
};

inline bool every_second_is(const std::vector<int>& found, int first) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] != (i % 2 == 0 ? first + static_cast<int>(i) : -1)) return false;
  }
  return true;
}

inline int error_class(int error) {
  int value = MPI_SUCCESS;
  MPI_Error_class(error, &value);
  return value;
}

struct Group {
  const char* name;
  void (*run)();
  bool for_any = false;  ///< number of ranks; the others are between two
};

/// The program: MPI, a primary context of the first device, the groups one after the other.
inline int run(int argc, char** argv, std::initializer_list<Group> groups) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  other = 1 - rank;
  CUcontext context = nullptr;
  CHECK(cuInit(0) == CUDA_SUCCESS);
  CHECK(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  for (const Group& group : groups) {
    if (ranks != 2 && !group.for_any) continue;
    group.run();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) std::printf("%s: all right\n", group.name);
  }
  MPI_Finalize();
  cuDevicePrimaryCtxRelease(0);
  return 0;
}

}  // namespace opal::gpu::test
