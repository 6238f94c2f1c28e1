// SPDX-License-Identifier: Apache-2.0
// fork() in a program whose threads allocate and free meanwhile: an event of the monitor comes from inside malloc,
// under malloc's locks, for which fork() waits after its handlers have taken theirs.
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "opal/core/sanitizer.hpp"
#include "opal/memory/events/monitor.hpp"
#include "tests/am/pair.hpp"

namespace opal::test {
namespace {

TEST(ForkUnderAllocation, ThreadsWhoseFreesReturnMemoryToTheKernelAndAForkDoNotWaitForEachOther) {
  if constexpr (OPAL_ADDRESS_SANITIZER) {
    GTEST_SKIP() << "needs glibc's malloc: the quarantine of AddressSanitizer's may stay locked in a child";
  }
  Side a{"sim,sm", am::ThreadLevel::multiple};
  if (memory::chosen_monitor()->monitor == nullptr) {
    GTEST_SKIP() << "needs patcher: x86-64, and a program that starts with one thread";
  }
  Side b{"sim,sm", am::ThreadLevel::multiple};
  am::Endpoint* const to_b = *a.context->connect(b.context->address());
  ASSERT_TRUE(to_b->send_or_queue(kTag, bytes_of(std::uint64_t{0}), {}) == Post::done);
  ASSERT_TRUE(pump([&] { return b.messages == 1; }, *a.context, *b.context));
  std::vector<std::byte> registered(std::size_t{1} << 16);
  ASSERT_TRUE(
      b.from->expose(registered.data(), registered.size(), Rights::all));  // from here on events are listened to

  ::mallopt(M_MMAP_THRESHOLD, 1 << 26);  // blocks come from the heap, and each free at its end trims that
  ::mallopt(M_TRIM_THRESHOLD, 64 << 10);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        auto* const block = static_cast<volatile char*>(std::malloc(1 << 20));
        block[4096] = 1;
        std::free(const_cast<char*>(block));
      }
    });
  }
  for (int i = 0; i < 50; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      std::free(std::malloc(1 << 20));
      ::_exit(0);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace opal::test
