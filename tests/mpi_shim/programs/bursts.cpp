// SPDX-License-Identifier: Apache-2.0
// Bursts of short messages over TCP: rank 0 sends, rank 1 receives, and counts in memory that both map.  So rank 0 sees
// without an MPI function what has arrived.  This program has send() and sendmsg() of its own, which count.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "check.h"

namespace {

std::atomic<int> system_calls{0};

}  // namespace

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
extern "C" {
[[gnu::visibility("default")]] ssize_t send(int fd, const void* bytes, size_t size, int flags) {
  ++system_calls;
  return ::syscall(SYS_sendto, fd, bytes, size, flags, nullptr, 0);
}
[[gnu::visibility("default")]] ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  ++system_calls;
  return ::syscall(SYS_sendmsg, fd, message, flags);
}
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)

namespace {

constexpr int kLarge = 1 << 20;  // bytes
constexpr int kLargeTag = 1;
constexpr int kAtOnce = 3;  // messages of a burst that are not held back
constexpr int kLong = 64;
constexpr int kShort = 10;

struct Shared {
  std::atomic<int> received;   // messages that rank 1 has received
  std::atomic<int> has_ended;  // 1: the MPI_Ssend of rank 2 has returned
};

Shared* map_shared() {
  int pid = ::getpid();
  MPI_Bcast(&pid, 1, MPI_INT, 0, MPI_COMM_WORLD);
  const std::string name = "/opal_bursts." + std::to_string(pid);
  const int fd = ::shm_open(name.c_str(), O_RDWR | O_CREAT, 0600);
  CHECK(fd >= 0 && ::ftruncate(fd, 4096) == 0);
  void* const page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(page != MAP_FAILED);
  ::close(fd);
  MPI_Barrier(MPI_COMM_WORLD);
  if (my_rank() == 0) ::shm_unlink(name.c_str());
  return static_cast<Shared*>(page);
}

class Sender {
 public:
  explicit Sender(const std::atomic<int>& received) : received_(received) {}

  void start(int rank = 1) {
    numbers_.push_back(static_cast<std::int64_t>(rank == 1 ? sent_++ : -1));
    MPI_Isend(&numbers_.back(), 1, MPI_INT64_T, rank, 0, MPI_COMM_WORLD, &add_request());
  }
  void start_some(int count) {
    for (int i = 0; i < count; ++i) start();
  }
  void start_large(const std::vector<char>& bytes) {
    ++sent_;
    MPI_Isend(bytes.data(), kLarge, MPI_CHAR, 1, kLargeTag, MPI_COMM_WORLD, &add_request());
  }
  void send() {
    const std::int64_t number = sent_++;
    MPI_Send(&number, 1, MPI_INT64_T, 1, 0, MPI_COMM_WORLD);
  }
  void finish() {
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    requests_.clear();
    numbers_.clear();
  }
  /// Waits without an MPI function until all messages have arrived.
  void expect_all_arrive() const {
    while (received_.load(std::memory_order_acquire) != sent_) sched_yield();
  }

 private:
  MPI_Request& add_request() { return requests_.emplace_back(MPI_REQUEST_NULL); }

  const std::atomic<int>& received_;
  int sent_ = 0;
  std::vector<std::int64_t> numbers_ = [] {
    std::vector<std::int64_t> room;
    room.reserve(1000);  // the messages stay where they are
    return room;
  }();
  std::vector<MPI_Request> requests_;
};

void send_all(const Shared& shared) {
  Sender sender{shared.received};
  sender.send();
  sender.expect_all_arrive();

  // A few messages leave at once.
  sender.start_some(kAtOnce);
  sender.expect_all_arrive();
  sender.finish();

  // A long burst takes few system calls, also with MPI_Irecv in it; the next MPI function sends its end.
  std::int64_t answer = 0;
  MPI_Request answered = MPI_REQUEST_NULL;
  int before = system_calls;
  for (int i = 0; i < kLong; ++i) {
    sender.start();
    if (i == kLong / 2) MPI_Irecv(&answer, 1, MPI_INT64_T, 1, 2, MPI_COMM_WORLD, &answered);
  }
  CHECK_EQ(system_calls - before, kAtOnce);
  sender.finish();
  CHECK_EQ(system_calls - before, kAtOnce + 1);
  sender.expect_all_arrive();
  MPI_Cancel(&answered);
  MPI_Wait(&answered, MPI_STATUS_IGNORE);

  // Messages with an MPI_Wait for each are no burst.
  before = system_calls;
  for (int i = 0; i < kShort; ++i) {
    sender.start();
    CHECK_EQ(system_calls - before, i + 1);
    sender.finish();
  }
  sender.expect_all_arrive();

  // A blocking send ends a burst, and so do a message to another rank and a receive that finds its message here.
  sender.start_some(kShort);
  sender.send();
  sender.expect_all_arrive();
  sender.finish();
  sender.start_some(kShort);
  sender.start(2);
  sender.expect_all_arrive();
  sender.finish();
  MPI_Probe(1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  sender.start_some(kShort);
  MPI_Recv(&answer, 1, MPI_INT64_T, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  sender.expect_all_arrive();
  sender.finish();

  // So does MPI_Irecv if it answers: rank 2 waits in MPI_Ssend for that.
  MPI_Probe(2, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  sender.start_some(kShort);
  MPI_Irecv(&answer, 1, MPI_INT64_T, 2, 3, MPI_COMM_WORLD, &answered);
  while (shared.has_ended.load(std::memory_order_acquire) == 0) sched_yield();
  sender.expect_all_arrive();
  MPI_Wait(&answered, MPI_STATUS_IGNORE);
  sender.finish();

  // A large message in a burst keeps its place.
  const std::vector<char> bytes(kLarge, 'x');
  sender.start_some(kShort);
  sender.start_large(bytes);
  sender.start_some(kShort);
  sender.finish();
  sender.expect_all_arrive();
}

void receive_all(std::atomic<int>& received) {
  constexpr int kMessages = 1 + kAtOnce + kLong + kShort + (kShort + 1) + kShort + kShort + kShort + (2 * kShort + 1);
  const std::int64_t here = 0;
  MPI_Send(&here, 1, MPI_INT64_T, 0, 3, MPI_COMM_WORLD);
  std::vector<char> bytes(kLarge);
  for (int i = 0; i < kMessages; ++i) {
    MPI_Status status;
    MPI_Probe(0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    if (status.MPI_TAG == kLargeTag) {
      MPI_Recv(bytes.data(), kLarge, MPI_CHAR, 0, kLargeTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      CHECK_EQ(i, kMessages - kShort - 1);
      CHECK_EQ(bytes.back(), 'x');
    } else {
      std::int64_t number = -1;
      MPI_Recv(&number, 1, MPI_INT64_T, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      CHECK_EQ(number, i);
    }
    received.store(i + 1, std::memory_order_release);
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  CHECK_EQ(world_size(), 3);
  Shared* const shared = map_shared();
  MPI_Barrier(MPI_COMM_WORLD);
  if (my_rank() == 0) send_all(*shared);
  if (my_rank() == 1) receive_all(shared->received);
  if (my_rank() == 2) {
    std::int64_t number = 0;
    MPI_Recv(&number, 1, MPI_INT64_T, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_EQ(number, -1);
    MPI_Ssend(&number, 1, MPI_INT64_T, 0, 3, MPI_COMM_WORLD);
    shared->has_ended.store(1, std::memory_order_release);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
