// SPDX-License-Identifier: Apache-2.0
// The monitor that asks the kernel: what it sees, when a cache may rely on it, and what happens where it is refused.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>

#include "opal/core/sanitizer.hpp"
#include "opal/core/system/fd.hpp"
#include "opal/memory/events/events.hpp"
#include "opal/memory/events/monitor.hpp"
#include "opal/rcache/cache.hpp"
#include "tests/harness/apart.hpp"
#include "tests/harness/child.hpp"
#include "tests/harness/refused_call.hpp"

namespace opal::memory {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kSize = 16 * kPage;
constexpr rcache::Access kAccess = 1;

/// A device that asks for its memory to be watched, as am::RegistrationCache does, and numbers its registrations.
class Device final : public rcache::Device, public Listener {
 public:
  Device() { EXPECT_TRUE(add_listener(*this)); }
  ~Device() override { remove_listener(*this); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  Result<void> register_memory(rcache::Registration& registration) noexcept override {
    const Range range{registration.begin(), registration.end()};
    if (!chosen_monitor()->monitor->watch(range)) registration.use_once();
    registration.cookie().set(++made);
    return {};
  }
  void deregister_memory(rcache::Registration&) noexcept override {}
  void released(Range range) noexcept override {
    if (slow_.load(std::memory_order_acquire)) before_report_();
    cache.invalidate(reinterpret_cast<const void*>(range.begin), range.size());
  }
  /// The number of the registration that serves this memory now.
  int number(const void* address) {
    auto lease = cache.get(address, kSize, kAccess);
    EXPECT_TRUE(lease);
    return lease ? (*lease)->cookie().get<int>() : 0;
  }

  /// `wait` is called before each report from now on; once.  (Released and acquired: that the kernel orders a call and
  /// its report is nothing that ThreadSanitizer knows.)
  void report_slowly(std::function<void()> wait) {
    before_report_ = std::move(wait);
    slow_.store(true, std::memory_order_release);
  }
  void report_at_once() { slow_.store(false, std::memory_order_relaxed); }

  std::atomic<int> made{0};
  rcache::Cache cache{*this};

 private:
  std::atomic<bool> slow_{false};
  std::function<void()> before_report_;
};

std::byte* map(void* where = nullptr) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
  void* const at =
      where != nullptr ? ::mmap(where, kSize, PROT_READ | PROT_WRITE, kFlags, -1, 0) : test::map_apart(kSize);
  if (at == MAP_FAILED) return nullptr;
  *static_cast<volatile std::byte*>(at) = std::byte{1};
  return static_cast<std::byte*>(at);
}

constexpr int kSkipped = 77;  // the kernel refuses

void expect_success(test::Child& child) {
  const std::optional<int> status = child.wait(std::chrono::seconds{120});
  ASSERT_TRUE(status) << "it hangs";
  if (WIFEXITED(*status) && WEXITSTATUS(*status) == kSkipped) {
    GTEST_SKIP() << "needs userfaultfd: Linux 6.7, and a sandbox that allows it";
  }
  EXPECT_EQ(*status, 0);
}

/// Runs `body` under this monitor in a process of its own, which has several threads.
void with_userfaultfd(const std::function<void()>& body) {
  test::Child child{[&](test::Channel&) {
    const Choice& choice = start_monitor({.monitor = "userfaultfd"});
    if (choice.monitor == nullptr) {
      std::fprintf(stderr, "%s", choice.reasons.c_str());
      return kSkipped;
    }
    body();
    return ::testing::Test::HasFailure() ? 1 : 0;
  }};
  expect_success(child);
}

TEST(Userfaultfd, WhatEveryCallTakesAwayIsReportedBeforeTheCacheIsAskedAgain) {
  with_userfaultfd([] {
    Device device;
    device.report_slowly([] { ::usleep(500); });  // so that a reader that does not wait comes too early
    std::byte* const at = map();
    int last = device.number(at);
    const auto expect_new = [&](const char* how) {
      const int now = device.number(at);
      EXPECT_NE(now, last) << how;
      last = now;
      EXPECT_EQ(device.number(at), last) << how << ": and then it is kept";
    };
    for (int round = 0; round < 100; ++round) {
      ::munmap(at, kSize);
      ASSERT_EQ(map(at), at);
      expect_new("munmap");
      ::madvise(at + kPage, kPage, MADV_DONTNEED);
      expect_new("madvise");
      ASSERT_EQ(::mmap(at, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), at);
      expect_new("mmap over it");
      std::byte* const target = map();
      ASSERT_EQ(::mremap(at + kPage, kPage, kPage, MREMAP_MAYMOVE | MREMAP_FIXED, target), target);
      ASSERT_EQ(::mmap(at + kPage, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), at + kPage);
      expect_new("mremap away");
      ::munmap(target, kSize);
      ::syscall(SYS_munmap, at, kPage);
      ASSERT_EQ(::mmap(at, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), at);
      expect_new("a system call without libc's function");
    }
  });
}

TEST(Userfaultfd, AThreadThatFindsTheAddressesFreeBeforeTheReportWaitsForIt) {
  with_userfaultfd([] {
    Device device;
    for (int round = 0; round < 20; ++round) {
      std::byte* const at = map();
      const int old = device.number(at);
      std::atomic<bool> reporting{false};
      std::atomic<bool> mapped_anew{false};
      device.report_slowly([&] {  // the reader is slow: the new mapping is there before the report
        reporting.store(true);
        while (!mapped_anew.load()) std::this_thread::yield();
      });
      std::thread takes{[&] { ::munmap(at, kSize); }};
      while (!reporting.load()) std::this_thread::yield();
      ASSERT_EQ(map(at), at);
      mapped_anew.store(true);
      EXPECT_NE(device.number(at), old);
      takes.join();
      device.report_at_once();
      ::munmap(at, kSize);
    }
  });
}

TEST(Userfaultfd, AForkedChildWatchesByItself) {
#if OPAL_THREAD_SANITIZER
  GTEST_SKIP() << "needs a build without ThreadSanitizer, which ends a forked child that starts a thread";
#endif
  with_userfaultfd([] {
    Device device;
    std::byte* const at = map();
    const int before = device.number(at);
    test::Child child{[&](test::Channel&) {
      const int mine = device.number(at);
      EXPECT_NE(mine, before) << "a child starts with empty caches";
      ::munmap(at, kSize);
      EXPECT_EQ(map(at), at);
      EXPECT_NE(device.number(at), mine);
      return ::testing::Test::HasFailure() ? 1 : 0;
    }};
    EXPECT_EQ(child.wait(), 0);
    EXPECT_EQ(device.number(at), before) << "what a child does is no news to the parent";
  });
}

TEST(Userfaultfd, MemoryThatNobodyCanWatchIsNotKept) {
  with_userfaultfd([] {
    Device device;
    const int segment = ::shmget(IPC_PRIVATE, kSize, 0600);
    ASSERT_GE(segment, 0);
    void* const attached = ::shmat(segment, nullptr, 0);
    ::shmctl(segment, IPC_RMID, nullptr);
    const Fd file{::open("/proc/self/exe", O_RDONLY)};
    void* const read_only = ::mmap(nullptr, kSize, PROT_READ, MAP_SHARED, file.get(), 0);
    for (const void* unwatched : {attached, read_only}) {
      const int first = device.number(unwatched);
      EXPECT_NE(device.number(unwatched), first);
      EXPECT_EQ(device.cache.statistics().registered.count, 0U);
    }
    ::shmdt(attached);
    ::munmap(read_only, kSize);
  });
}

TEST(Userfaultfd, ManyRangesDoNotUseUpTheMappingsOfTheProcess) {
  with_userfaultfd([] {
    constexpr std::size_t kRanges = 40'000;  // apart from each other; each would split its mapping twice
    void* const at = ::mmap(nullptr, 2 * kRanges * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(at, MAP_FAILED);
    for (std::size_t i = 0; i < kRanges; ++i) {
      const auto address = reinterpret_cast<std::uintptr_t>(at) + 2 * i * kPage;
      const auto watched = chosen_monitor()->monitor->watch({address, address + kPage});
      ASSERT_TRUE(watched) << i << ": " << to_string(watched.error());
    }
    ::munmap(at, 2 * kRanges * kPage);
  });
}

/// From here on this process's userfaultfd calls are answered with EPERM, as sandboxes do.
void forbid_userfaultfd() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{sizeof filter / sizeof *filter, filter};
  ASSERT_EQ(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

TEST(Userfaultfd, WhereItIsForbiddenTheReasonIsSaid) {
  test::Child child{[](test::Channel&) {
    forbid_userfaultfd();
    const Choice& choice = start_monitor({.monitor = "userfaultfd"});
    EXPECT_EQ(choice.monitor, nullptr);
    EXPECT_THAT(choice.reasons, HasSubstr("userfaultfd: "));
    EXPECT_THAT(choice.reasons, HasSubstr("sandbox"));
    return ::testing::Test::HasFailure() ? 1 : 0;
  }};
  EXPECT_EQ(child.wait(), 0);
}

// Watching a part of a mapping makes the kernel refuse mremap() of the whole: so it has to be asked for.
TEST(Userfaultfd, AutoLeavesItOutWhereThePatcherHasToRefuse) {
  test::Child child{[](test::Channel&) {
    test::refuse_system_call(SYS_membarrier);  // which the patcher needs beside other threads
    std::atomic<bool> stop{false};
    std::thread other{[&] { stop.wait(false); }};
    const Choice& choice = start_monitor({});
    EXPECT_EQ(choice.monitor, nullptr) << choice.monitor->name();
    EXPECT_THAT(choice.reasons, HasSubstr("patcher: "));
    stop.store(true);
    stop.notify_all();
    other.join();
    return ::testing::Test::HasFailure() ? 1 : 0;
  }};
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace opal::memory
