// SPDX-License-Identifier: Apache-2.0
// mpi_failing_copy OPERATION: two ranks; the driver of rank 1 refuses every copy, which ends rank 1 inside OPERATION
// with a message, and so the job.  The failure of this test is that rank 1 reaches the end.
#include <cstring>
#include <functional>
#include <map>
#include <string>

#include "tests/gpu/mpi_memory.hpp"

namespace opal::gpu::test {
namespace {

const char* operation;

void fail() {
  const Gpu memory{numbers(1)};
  const Gpu target;
  const EverySecond half;
  std::vector<int> host = numbers(0);
  const auto exchange = [&](int from, const std::function<int()>& send, const std::function<int()>& receive) {
    return rank == from ? send() : receive();
  };
  const auto receive = [&](void* to) {
    return MPI_Recv(to, kCount, MPI_INT, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  };
  const auto send = [&](const void* from) { return MPI_Send(from, kCount, MPI_INT, other, 1, MPI_COMM_WORLD); };
  int position = 0;
  const int bytes = kCount * static_cast<int>(sizeof(int));
  const std::map<std::string, std::function<int()>> operations{
      {"receive",
       [&] {
         return exchange(
             0, [&] { return send(host.data()); }, [&] { return receive(target.data()); });
       }},
      {"send",
       [&] {
         return exchange(
             1, [&] { return send(memory.data()); }, [&] { return receive(host.data()); });
       }},
      {"pack", [&] { return MPI_Pack(memory.data(), 1, half.type, host.data(), bytes, &position, MPI_COMM_WORLD); }},
      {"reduce_local", [&] { return MPI_Reduce_local(memory.data(), host.data(), kCount, MPI_INT, MPI_SUM); }},
      {"allreduce",
       [&] { return MPI_Allreduce(memory.data(), target.data(), kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD); }},
      {"accumulate",
       [&] {
         MPI_Win window;
         MPI_Win_create(host.data(), bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
         MPI_Win_lock_all(0, window);
         (void)MPI_Accumulate(memory.data(), kCount, MPI_INT, other, 0, kCount, MPI_INT, MPI_SUM, window);
         MPI_Win_unlock_all(window);
         return MPI_Win_free(&window);
       }},
  };
  const auto found = operations.find(operation);
  CHECK(found != operations.end());
  MPI_Barrier(MPI_COMM_WORLD);
  for (const char* const function : {"cuMemcpyAsync", "cuMemcpy2DAsync"}) {
    if (rank == 1) cuda_double::control()->fail(function, CUDA_ERROR_ILLEGAL_ADDRESS, 1'000'000);
  }
  (void)found->second();
  if (rank == 0) {
    MPI_Barrier(MPI_COMM_WORLD);  // until the job ends, or this rank learns first that rank 1 has ended
  } else {
    std::printf("rank 1 goes on after a copy that failed\n");
  }
}

}  // namespace
}  // namespace opal::gpu::test

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  opal::gpu::test::operation = argv[1];
  return opal::gpu::test::run(argc, argv, {{"copies that fail", opal::gpu::test::fail}});
}
