// SPDX-License-Identifier: Apache-2.0
// Every group of MPI functions with buffers in GPU memory, on two ranks, and what becomes of a copy that the driver
// refuses; the last on any number.  A group that is not in the table is one that takes no buffers; one-sided accesses
// are in mpi_windows.cpp.
#include <cstdio>
#include <cstring>
#include <vector>

#include "tests/gpu/mpi_memory.hpp"

namespace opal::gpu::test {
namespace {

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
  auto* const control = cuda_double::control();
  const std::uint64_t copies = control != nullptr ? control->calls("cuMemcpyAsync") : 0;
  CHECK(MPI_Pack(from.data(), 1, half.type, packed.data(), bytes, &position, MPI_COMM_WORLD) == MPI_SUCCESS);
  CHECK(position == bytes && packed[0] == 5 && packed[1] == 7);
  CHECK(control == nullptr || control->calls("cuMemcpyAsync") == copies);  // all blocks by one call
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
  // Between one that is contiguous and one that is not, and only one of them on the GPU.
  std::vector<int> gaps(kCount, -1);
  position = 0;
  CHECK(MPI_Unpack(dense.data(), bytes, &position, gaps.data(), 1, half.type, MPI_COMM_WORLD) == MPI_SUCCESS);
  CHECK(every_second_is(gaps, 5));
  const Gpu again{kCount / 2};
  position = 0;
  CHECK(MPI_Pack(gaps.data(), 1, half.type, again.data(), bytes, &position, MPI_COMM_WORLD) == MPI_SUCCESS);
  CHECK(again.read() == packed);
  const auto to_self = [&](const void* from, int count, MPI_Datatype type, void* to, int to_count, MPI_Datatype as) {
    CHECK(MPI_Sendrecv(from, count, type, rank, 7, to, to_count, as, rank, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE) ==
          MPI_SUCCESS);
  };
  for (const int count : {100, kCount / 2}) {
    std::vector<int> some(kCount, -1);
    MPI_Datatype part;
    MPI_Type_vector(count, 1, 2, MPI_INT, &part);
    MPI_Type_commit(&part);
    to_self(dense.data(), count, MPI_INT, some.data(), 1, part);
    CHECK(some[0] == 5 && some[2] == 7 && some[1] == -1);
    const Gpu back{count};
    to_self(some.data(), 1, part, back.data(), count, MPI_INT);
    CHECK(back.read() == std::vector<int>(packed.begin(), packed.begin() + count));
    MPI_Type_free(&part);
  }
}

void packing_for_others() {
  const EverySecond half;
  const Gpu from{numbers(5)};
  const Gpu packed{kCount / 2};
  const Gpu to;
  const MPI_Aint bytes = kCount / 2 * static_cast<MPI_Aint>(sizeof(int));
  MPI_Aint position = 0;
  CHECK(MPI_Pack_external("external32", from.data(), 1, half.type, packed.data(), bytes, &position) == MPI_SUCCESS);
  CHECK(position == bytes && packed.read()[1] == 0x07000000);
  position = 0;
  CHECK(MPI_Unpack_external("external32", packed.data(), bytes, &position, to.data(), 1, half.type) == MPI_SUCCESS);
  CHECK(position == bytes && every_second_is(to.read(), 5));
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

}  // namespace
}  // namespace opal::gpu::test

int main(int argc, char** argv) {
  using namespace opal::gpu::test;
  return run(argc, argv,
             {{"modes of sending", send_modes},
              {"persistent requests", persistent},
              {"in place, matched probes", in_place_and_matched},
              {"packing", packing},
              {"packing for other machines", packing_for_others},
              {"local reductions", reduce_local},
              {"collectives with counts", vector_collectives},
              {"other collectives", other_collectives}});
}
