// SPDX-License-Identifier: Apache-2.0
// Every group of MPI functions with buffers in GPU memory, on two ranks: what works, what is refused by name, and what
// becomes of a copy that the driver refuses; the last on any number.  A group that is not in the table is one that
// takes no buffers.
#include <cuda.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <vector>

#include "mpi.h"
#include "tests/gpu/double/control.hpp"
#include "tests/mpi_shim/programs/check.h"

namespace {

using opal::cuda_double::Control;

int rank = 0;
int ranks = 0;
int other = 0;

constexpr int kCount = 100'000;  // beyond every eager limit, also half of it

std::vector<int> numbers(int first, int count = kCount) {
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

/// Every second integer, so that nothing is contiguous.
struct EverySecond {
  EverySecond() {
    MPI_Type_vector(kCount / 2, 1, 2, MPI_INT, &type);
    MPI_Type_commit(&type);
  }
  ~EverySecond() { MPI_Type_free(&type); }
  EverySecond(const EverySecond&) = delete;
  EverySecond& operator=(const EverySecond&) = delete;
  MPI_Datatype type{};
};

bool every_second_is(const std::vector<int>& found, int first) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] != (i % 2 == 0 ? first + static_cast<int>(i) : -1)) return false;
  }
  return true;
}

int error_class(int error) {
  int value = MPI_SUCCESS;
  MPI_Error_class(error, &value);
  return value;
}

void send_modes() {
  using Send = int (*)(const void*, int, MPI_Datatype, int, int, MPI_Comm);
  std::vector<std::byte> attached(kCount * sizeof(int) + MPI_BSEND_OVERHEAD);
  MPI_Buffer_attach(attached.data(), static_cast<int>(attached.size()));
  for (const Send send : {Send{&MPI_Send}, Send{&MPI_Ssend}, Send{&MPI_Bsend}, Send{&MPI_Rsend}}) {
    for (const int count : {10, kCount}) {
      const Gpu out{numbers(rank, count)};
      const Gpu in{count};
      MPI_Request request;
      MPI_Irecv(in.data(), count, MPI_INT, other, 1, MPI_COMM_WORLD, &request);
      MPI_Barrier(MPI_COMM_WORLD);  // for MPI_Rsend
      CHECK(send(out.data(), count, MPI_INT, other, 1, MPI_COMM_WORLD) == MPI_SUCCESS);
      CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
      CHECK(in.read() == numbers(other, count));
    }
  }
  void* buffer = nullptr;
  int size = 0;
  MPI_Buffer_detach(static_cast<void*>(&buffer), &size);
}

void persistent() {
  const Gpu out{numbers(rank)};
  const Gpu in;
  MPI_Request requests[2];
  MPI_Recv_init(in.data(), kCount, MPI_INT, other, 2, MPI_COMM_WORLD, &requests[0]);
  MPI_Send_init(out.data(), kCount, MPI_INT, other, 2, MPI_COMM_WORLD, &requests[1]);
  for (int i = 0; i < 3; ++i) {
    CHECK(MPI_Startall(2, requests) == MPI_SUCCESS);
    CHECK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
    CHECK(in.read() == numbers(other));
  }
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
}

void in_place_and_matched() {
  const Gpu both{numbers(rank)};
  CHECK(MPI_Sendrecv_replace(both.data(), kCount, MPI_INT, other, 3, other, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE) ==
        MPI_SUCCESS);
  CHECK(both.read() == numbers(other));
  MPI_Request request;
  MPI_Isend(both.data(), kCount, MPI_INT, other, 4, MPI_COMM_WORLD, &request);
  MPI_Message message;
  MPI_Mprobe(other, 4, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
  const Gpu in;
  CHECK(MPI_Mrecv(in.data(), kCount, MPI_INT, &message, MPI_STATUS_IGNORE) == MPI_SUCCESS);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK(in.read() == numbers(rank));
}

void packing() {
  const EverySecond half;
  const Gpu from{numbers(5)};
  const Gpu to;
  std::vector<int> packed(kCount / 2);
  int position = 0;
  const int bytes = static_cast<int>(packed.size() * sizeof(int));
  CHECK(MPI_Pack(from.data(), 1, half.type, packed.data(), bytes, &position, MPI_COMM_WORLD) == MPI_SUCCESS);
  CHECK(position == bytes && packed[0] == 5 && packed[1] == 7);
  position = 0;
  CHECK(MPI_Unpack(packed.data(), bytes, &position, to.data(), 1, half.type, MPI_COMM_WORLD) == MPI_SUCCESS);
  CHECK(every_second_is(to.read(), 5));
  const Gpu dense{kCount / 2};  // packed on the GPU, too
  position = 0;
  CHECK(MPI_Pack(from.data(), 1, half.type, dense.data(), bytes, &position, MPI_COMM_WORLD) == MPI_SUCCESS);
  CHECK(dense.read() == packed);
  std::vector<int> scattered(kCount, -1);  // between two that are not contiguous, one on the GPU and one not
  CHECK(MPI_Sendrecv(from.data(), 1, half.type, rank, 6, scattered.data(), 1, half.type, rank, 6, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE) == MPI_SUCCESS);
  CHECK(every_second_is(scattered, 5));
}

void reduce_local() {
  const Gpu in{numbers(1)};
  const Gpu inout{numbers(2)};
  CHECK(MPI_Reduce_local(in.data(), inout.data(), kCount, MPI_INT, MPI_SUM) == MPI_SUCCESS);
  const auto sum = inout.read();
  for (int i = 0; i < kCount; ++i) CHECK(sum[static_cast<std::size_t>(i)] == 3 + 2 * i);
  std::vector<int> host = numbers(0);
  CHECK(MPI_Reduce_local(in.data(), host.data(), kCount, MPI_INT, MPI_SUM) == MPI_SUCCESS);
  CHECK(host[1] == 3);
}

void vector_collectives() {
  const int counts[] = {kCount / 4, kCount / 2};
  const int places[] = {0, kCount / 4};
  const int mine = counts[rank];
  const auto all = [&] {
    auto values = numbers(0, counts[0]);
    const auto second = numbers(1, counts[1]);
    values.insert(values.end(), second.begin(), second.end());
    return values;
  }();
  const int total = counts[0] + counts[1];
  const Gpu own{numbers(rank, mine)};
  const Gpu together{total};
  CHECK(MPI_Allgatherv(own.data(), mine, MPI_INT, together.data(), counts, places, MPI_INT, MPI_COMM_WORLD) ==
        MPI_SUCCESS);
  CHECK(together.read() == all);
  const Gpu part{mine};
  CHECK(MPI_Scatterv(together.data(), counts, places, MPI_INT, part.data(), mine, MPI_INT, 1, MPI_COMM_WORLD) ==
        MPI_SUCCESS);
  CHECK(part.read() == numbers(rank, mine));
  const Gpu gathered{total};
  CHECK(MPI_Gatherv(own.data(), mine, MPI_INT, gathered.data(), counts, places, MPI_INT, 0, MPI_COMM_WORLD) ==
        MPI_SUCCESS);
  CHECK(rank != 0 || gathered.read() == all);
  const int even[] = {kCount / 4, kCount / 4};
  const MPI_Datatype types[] = {MPI_INT, MPI_INT};
  const int bytes[] = {0, kCount / 4 * static_cast<int>(sizeof(int))};
  const Gpu out{numbers(1000 * rank, kCount / 2)};
  const Gpu in{kCount / 2};
  CHECK(MPI_Alltoallv(out.data(), even, places, MPI_INT, in.data(), even, places, MPI_INT, MPI_COMM_WORLD) ==
        MPI_SUCCESS);
  CHECK(in.read()[0] == rank * (kCount / 4));
  CHECK(MPI_Alltoallw(out.data(), even, bytes, types, in.data(), even, bytes, types, MPI_COMM_WORLD) == MPI_SUCCESS);
  CHECK(in.read()[kCount / 4] == 1000 + rank * (kCount / 4));
}

void other_collectives() {
  const Gpu in{numbers(rank)};
  const Gpu out;
  CHECK(MPI_Exscan(in.data(), out.data(), kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
  CHECK(rank == 0 || out.read() == numbers(0));
  const int counts[] = {kCount / 2, kCount / 2};
  const Gpu part{kCount / 2};
  CHECK(MPI_Reduce_scatter(in.data(), part.data(), counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
  CHECK(part.read()[1] == 1 + 2 * (rank * kCount / 2 + 1));
  MPI_Request request;
  const Gpu word{rank == 0 ? numbers(9) : numbers(0)};
  CHECK(MPI_Ibcast(word.data(), kCount, MPI_INT, 0, MPI_COMM_WORLD, &request) == MPI_SUCCESS);
  CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
  CHECK(word.read() == numbers(9));
  const int sides[] = {2};
  const int periods[] = {1};
  MPI_Comm ring;
  MPI_Cart_create(MPI_COMM_WORLD, 1, sides, periods, 0, &ring);
  const Gpu near{2 * kCount};
  CHECK(MPI_Neighbor_allgather(in.data(), kCount, MPI_INT, near.data(), kCount, MPI_INT, ring) == MPI_SUCCESS);
  CHECK(near.read()[0] == other);
  MPI_Comm_free(&ring);
}

void one_sided() {
  const EverySecond half;
  std::vector<int> memory(kCount, -1);
  MPI_Win win;
  MPI_Win_create(memory.data(), kCount * static_cast<MPI_Aint>(sizeof(int)), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                 &win);
  const Gpu from{numbers(100 * rank)};
  MPI_Win_fence(0, win);
  CHECK(MPI_Put(from.data(), kCount, MPI_INT, other, 0, kCount, MPI_INT, win) == MPI_SUCCESS);
  MPI_Win_fence(0, win);
  CHECK(memory == numbers(100 * other));
  const Gpu to;
  CHECK(MPI_Get(to.data(), kCount, MPI_INT, other, 0, kCount, MPI_INT, win) == MPI_SUCCESS);
  MPI_Win_fence(0, win);
  CHECK(to.read() == numbers(100 * rank));
  const Gpu spread;
  CHECK(MPI_Get(spread.data(), 1, half.type, other, 0, 1, half.type, win) == MPI_SUCCESS);
  MPI_Win_fence(0, win);
  CHECK(every_second_is(spread.read(), 100 * rank));
  MPI_Win_lock(MPI_LOCK_SHARED, other, 0, win);
  MPI_Request request;
  CHECK(MPI_Rget(to.data(), 10, MPI_INT, other, 10, 10, MPI_INT, win, &request) == MPI_SUCCESS);
  CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
  MPI_Win_unlock(other, win);
  CHECK(to.read()[0] == 100 * rank + 10);

  // The processor calculates these.
  MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, other, 0, win);
  int host = 0;
  CHECK(error_class(MPI_Accumulate(from.data(), 1, MPI_INT, other, 0, 1, MPI_INT, MPI_SUM, win)) == MPI_ERR_BUFFER);
  CHECK(error_class(MPI_Get_accumulate(&host, 1, MPI_INT, to.data(), 1, MPI_INT, other, 0, 1, MPI_INT, MPI_SUM, win)) ==
        MPI_ERR_BUFFER);
  CHECK(error_class(MPI_Fetch_and_op(from.data(), &host, MPI_INT, other, 0, MPI_SUM, win)) == MPI_ERR_BUFFER);
  CHECK(error_class(MPI_Compare_and_swap(&host, &host, to.data(), MPI_INT, other, 0, win)) == MPI_ERR_BUFFER);
  MPI_Win_unlock(other, win);
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK(memory == numbers(100 * other));
  MPI_Win_free(&win);
}

void refused() {
  const Gpu memory;
  MPI_Win win;
  CHECK(error_class(MPI_Win_create(memory.data(), 400, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &win)) == MPI_ERR_BASE);
  MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  CHECK(error_class(MPI_Win_attach(win, memory.data(), 400)) == MPI_ERR_BASE);
  MPI_Win_free(&win);
  std::vector<std::byte> packed(100);
  MPI_Aint position = 0;
  const int error = MPI_Pack_external("external32", memory.data(), 1, MPI_INT, packed.data(), 100, &position);
  CHECK(error_class(error) == MPI_ERR_BUFFER);
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(error, text, &length);
}

/// The driver of this rank refuses its next copies.
void fail_copies(unsigned times = 1'000'000) {
  opal::cuda_double::control()->fail("cuMemcpyAsync", CUDA_ERROR_ILLEGAL_ADDRESS, times);
}
void copies_work() { opal::cuda_double::control()->fail("cuMemcpyAsync", CUDA_SUCCESS, 1); }

/// Rank 1 cannot read its part of a collective: nobody waits for it for ever, and whoever gets it, or something made of
/// it, hears of it.  Where another rank's GPU reads that part itself nothing fails, and what was sent is there.
void collectives_of_unreadable_memory() {
  const Gpu mine{numbers(1)};
  for (int repeat = 0; repeat < 3; ++repeat) {  // later ones go through shared memory
    for (const int count : {100, 10'000, kCount}) {
      const Gpu sum{count};
      enum class Reaches : std::uint8_t { all, root };
      const auto check = [&](const char* name, Reaches reaches, int place, int value, auto&& call) {
        const Gpu result{ranks * kCount};
        if (rank == 1) fail_copies();
        const int error = call(result.data());
        if (rank == 1) copies_work();
        const bool told = error_class(error) == MPI_ERR_OTHER;
        const bool reached = reaches == Reaches::all || rank <= 1;  // the root is 0
        const bool right =
            error == MPI_SUCCESS && (rank == 1 || !reached || result.read()[static_cast<std::size_t>(place)] == value);
        if (count == 100 && reached ? !told : !told && !right) {
          std::fprintf(stderr, "%s of %d on rank %d: error class %d\n", name, count, rank, error_class(error));
          MPI_Abort(MPI_COMM_WORLD, 1);
        }
        MPI_Barrier(MPI_COMM_WORLD);
      };
      const int part = count / ranks;
      check("Bcast", Reaches::all, 9, 10, [&](int* result) {
        return MPI_Bcast(rank == 1 ? mine.data() : result, count, MPI_INT, 1, MPI_COMM_WORLD);
      });
      check("Allreduce", Reaches::all, 9, 10 * ranks,
            [&](int* result) { return MPI_Allreduce(mine.data(), result, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD); });
      check("Reduce", Reaches::root, 9, 10 * ranks,
            [&](int* result) { return MPI_Reduce(mine.data(), result, count, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD); });
      check("Allgather", Reaches::all, count + 9, 10, [&](int* result) {
        return MPI_Allgather(mine.data(), count, MPI_INT, result, count, MPI_INT, MPI_COMM_WORLD);
      });
      check("Gather", Reaches::root, count + 9, 10, [&](int* result) {
        return MPI_Gather(mine.data(), count, MPI_INT, result, count, MPI_INT, 0, MPI_COMM_WORLD);
      });
      check("Scatter", Reaches::all, 9, 10 + rank * part, [&](int* result) {
        return MPI_Scatter(mine.data(), part, MPI_INT, result, part, MPI_INT, 1, MPI_COMM_WORLD);
      });
      check("Alltoall", Reaches::all, part + 9, 10 + rank * part, [&](int* result) {
        return MPI_Alltoall(mine.data(), part, MPI_INT, result, part, MPI_INT, MPI_COMM_WORLD);
      });
      CHECK(MPI_Allreduce(mine.data(), sum.data(), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
      CHECK(sum.read()[9] == 10 * ranks);  // and the next one is right
    }
  }
}

/// Each side of every exchange ends; the side whose driver fails says so.
void failing_copies() {
  const EverySecond half;
  const Gpu memory{numbers(0)};
  const Gpu target;
  std::vector<int> host = numbers(0);
  // Receives: small and large, contiguous and not.
  for (const int count : {10, kCount}) {
    for (const bool spread : {false, true}) {
      if (rank == 0) {
        CHECK(MPI_Send(host.data(), spread ? count / 2 : count, MPI_INT, 1, 1, MPI_COMM_WORLD) == MPI_SUCCESS);
      } else {
        fail_copies();
        const int error = spread ? MPI_Recv(target.data(), 1, half.type, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
                                 : MPI_Recv(target.data(), count, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        copies_work();
        CHECK(error_class(error) == MPI_ERR_OTHER);
      }
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }
  // A send that has to be pushed: the receiver is told that the rest does not come.
  if (rank == 0) {
    MPI_Request request;
    MPI_Isend(memory.data(), 1, half.type, 1, 2, MPI_COMM_WORLD, &request);
    fail_copies();
    const int error = MPI_Wait(&request, MPI_STATUS_IGNORE);
    copies_work();
    CHECK(error_class(error) == MPI_ERR_OTHER);
  } else {
    CHECK(error_class(MPI_Recv(host.data(), kCount, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE)) ==
          MPI_ERR_OTHER);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  // What needs nobody else.
  std::vector<int> packed(kCount / 2);
  int position = 0;
  std::vector<std::byte> attached(kCount * sizeof(int) + MPI_BSEND_OVERHEAD);
  MPI_Buffer_attach(attached.data(), static_cast<int>(attached.size()));
  const int bytes = static_cast<int>(packed.size() * sizeof(int));
  fail_copies();
  const int errors[] = {
      MPI_Send(memory.data(), 10, MPI_INT, other, 78, MPI_COMM_WORLD),  // in its place comes that there is none
      MPI_Pack(memory.data(), 1, half.type, packed.data(), bytes, &position, MPI_COMM_WORLD),
      MPI_Unpack(packed.data(), bytes, &position, target.data(), 1, half.type, MPI_COMM_WORLD),
      MPI_Reduce_local(memory.data(), host.data(), 10, MPI_INT, MPI_SUM),
      MPI_Bsend(memory.data(), 1, half.type, other, 77, MPI_COMM_WORLD),
  };
  copies_work();
  for (const int error : errors) CHECK(error_class(error) == MPI_ERR_OTHER);
  CHECK(position == 0);
  void* buffer = nullptr;
  int size = 0;
  MPI_Buffer_detach(static_cast<void*>(&buffer), &size);
  int flag = 1;
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Iprobe(other, 77, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
  CHECK(flag == 0);
  CHECK(error_class(MPI_Recv(host.data(), kCount, MPI_INT, other, 78, MPI_COMM_WORLD, MPI_STATUS_IGNORE)) ==
        MPI_ERR_OTHER);
  // Who cannot take its part of a collective says so, and nobody waits for it.
  for (int repeat = 0; repeat < 3; ++repeat) {  // later ones go through shared memory
    for (const int count : {100, kCount}) {
      if (rank == 1) fail_copies();
      const int error = MPI_Bcast(target.data(), count, MPI_INT, 0, MPI_COMM_WORLD);
      if (rank == 1) copies_work();
      CHECK(error_class(error) == (rank == 1 ? MPI_ERR_OTHER : MPI_SUCCESS));
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
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
  struct Group {
    const char* name;
    void (*run)();
  };
  const bool injects = opal::cuda_double::control() != nullptr;
  const Group groups[] = {{"modes of sending", send_modes},
                          {"persistent requests", persistent},
                          {"in place, matched probes", in_place_and_matched},
                          {"packing", packing},
                          {"local reductions", reduce_local},
                          {"collectives with counts", vector_collectives},
                          {"other collectives", other_collectives},
                          {"one-sided", one_sided},
                          {"what is refused", refused},
                          {"copies that fail", injects ? failing_copies : [] {}},
                          {"collectives of what cannot be read", injects ? collectives_of_unreadable_memory : [] {}}};
  for (const Group& group : groups) {
    if (ranks != 2 && group.run != collectives_of_unreadable_memory) continue;  // the others are between two
    group.run();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) std::printf("%s: all right\n", group.name);
  }
  MPI_Finalize();
  cuDevicePrimaryCtxRelease(0);
  return 0;
}
