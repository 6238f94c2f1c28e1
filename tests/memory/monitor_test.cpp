// SPDX-License-Identifier: Apache-2.0
// Memory monitors in whole programs: with the allocators and the hooks of others, and when they have to refuse.
#include "opal/memory/events/monitor.hpp"
#include "opal/core/sanitizer.hpp"

#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "opal/capi/opal.h"
#include "opal/core/system/mapping.hpp"
#include "tests/am/pair.hpp"
#include "tests/harness/child.hpp"
#include "tests/harness/program.hpp"
#include "tests/harness/refused_call.hpp"

namespace opal::memory {
namespace {

using ::testing::HasSubstr;

const std::string kTraffic = OPAL_TEST_BIN "/memory_traffic";
const std::string kHooks = OPAL_TEST_BIN "/libmemory_other_hooks.so";
constexpr int kSkipped = 77;

/// Runs the traffic program; its exit status, its output in `output`.
int run(const std::string& mode, std::string& output, const test::Environment& environment = {}) {
  const test::Scratch scratch;
  test::Program program{{kTraffic, kHooks, mode}, scratch.file("log"), environment};
  const int status = program.wait();
  output = program.output();
  return status;
}

/// Where the linker keeps `library`; empty when this machine has none.
std::string find_library(const std::string& library) {
  for (const char* folder : {"/usr/lib/x86_64-linux-gnu/", "/usr/lib64/", "/usr/lib/"}) {
    if (std::filesystem::exists(folder + library)) return folder + library;
  }
  return {};
}

class Monitored : public ::testing::Test {
 protected:
  void SetUp() override {
#if OPAL_THREAD_SANITIZER || !defined(__x86_64__)
    GTEST_SKIP() << "needs patcher: x86-64, and a program that starts with one thread";
#endif
  }
};

TEST_F(Monitored, NothingLeavesUnseen) {
  std::string output;
  EXPECT_EQ(run("alone", output), 0) << output;
}

TEST_F(Monitored, AnotherLibrarysHooksThatWereThereBeforeGoOnWorking) {
  std::string output;
  EXPECT_EQ(run("hooks-before", output), 0) << output;
}

TEST_F(Monitored, AnotherLibrarysHooksThatCameLaterHideNothing) {
  std::string output;
  EXPECT_EQ(run("hooks-after", output), 0) << output;
}

struct OtherLibrary {
  const char* hooks;
  const char* library;
  const char* package;
};
class WithHooksOf : public Monitored, public ::testing::WithParamInterface<OtherLibrary> {
 protected:
  void both_see_everything(const std::string& order) {
    std::string output;
    const int status = run(GetParam().hooks + order, output);
    if (status == kSkipped) {
      GTEST_SKIP() << "needs " << GetParam().library << ": apt-get install " << GetParam().package;
    }
    EXPECT_EQ(status, 0) << output;
  }
};
TEST_P(WithHooksOf, NothingLeavesUnseenOnEitherSideWhenTheyCameFirst) { both_see_everything("-before"); }
TEST_P(WithHooksOf, NothingLeavesUnseenOnEitherSideWhenTheyCameLater) { both_see_everything("-after"); }
INSTANTIATE_TEST_SUITE_P(Others, WithHooksOf,
                         ::testing::Values(OtherLibrary{"ucm", "libucm.so.0", "libucx0"},
                                           OtherLibrary{"ompi", "libopen-pal.so.40", "libopenmpi3"}),
                         [](const auto& info) { return std::string{info.param.hooks}; });

struct Preload {
  const char* library;
  const char* package;
};
class WithAllocator : public Monitored, public ::testing::WithParamInterface<Preload> {};
TEST_P(WithAllocator, NothingLeavesUnseen) {
#if OPAL_ADDRESS_SANITIZER
  GTEST_SKIP() << "a sanitizer brings an allocator of its own";
#endif
  const std::string path = find_library(GetParam().library);
  if (path.empty()) GTEST_SKIP() << "needs " << GetParam().library << ": apt-get install " << GetParam().package;
  std::string output;
  EXPECT_EQ(run("alone", output, {{"LD_PRELOAD", path}, {"ASAN_OPTIONS", "detect_leaks=0:quarantine_size_mb=1"}}), 0)
      << output;
}
#if OPAL_ADDRESS_SANITIZER
TEST_F(Monitored, WhatLeavesAddressSanitizersQuarantineIsSeen) {
  std::string output;
  EXPECT_EQ(run("alone", output, {{"ASAN_OPTIONS", "detect_leaks=0:quarantine_size_mb=1"}}), 0) << output;
}
#endif
TEST_F(Monitored, TheSelfTestFailsIfOnlyFunctionCallsAreReported) {
  const test::Scratch scratch;
  test::Program program{{OPAL_TEST_BIN "/memory_function_monitor"}, scratch.file("log")};
  EXPECT_EQ(program.wait(), 0) << program.output();
  EXPECT_THAT(program.output(), HasSubstr("self-test: free() of a large block went unseen"));
}
INSTANTIATE_TEST_SUITE_P(Preloaded, WithAllocator,
                         ::testing::Values(Preload{"libjemalloc.so.2", "libjemalloc2"},
                                           Preload{"libmimalloc.so.2", "libmimalloc2.0"},
                                           Preload{"libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"},
                                           Preload{"libasan.so.8", "libasan8"}),
                         [](const auto& info) {
                           const std::string name = info.param.library;
                           return name.substr(3, name.find_first_of("._", 3) - 3);
                         });

/// Runs `body` in a process where no monitor was chosen yet.
void in_fresh_process(const std::function<void()>& body) {
  test::Child child{[&](test::Channel&) {
    body();
    return ::testing::Test::HasFailure() ? 1 : 0;
  }};
  EXPECT_EQ(child.wait(), 0);
}

/// Maps, empties and unmaps memory until `stop`, by libc's functions and by syscall().
void map_and_unmap(const std::atomic<bool>& stop) {
  constexpr std::size_t kSize = 16 << 10;
  while (!stop) {
    void* const memory = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    ASSERT_EQ(::madvise(memory, kSize, MADV_DONTNEED), 0);
    ASSERT_EQ(::syscall(SYS_munmap, memory, kSize), 0);
#if !OPAL_ADDRESS_SANITIZER
    // Above the threshold of mmap.  AddressSanitizer keeps freed blocks in its quarantine instead, which the monitor's
    // self-test empties: with several threads that fill it, each start of the monitor took 12 s.
    std::free(std::malloc(std::size_t{1} << 20));
#endif
  }
}

/// Forks children that map and unmap, until `stop`.
void fork_often(const std::atomic<bool>& stop) {
  while (!stop) {
    const pid_t child = ::fork();
    if (child == 0) {
      void* const memory = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      ::_exit(memory != MAP_FAILED && ::munmap(memory, 4096) == 0 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }
}

// A program that initialised CUDA, or a Python interpreter, has threads before it opens a Context.
TEST_F(Monitored, ThePatcherStartsWhileThreadsMapUnmapAndFork) {
  for (int round = 0; round < 20; ++round) {
    in_fresh_process([] {
      std::atomic<bool> stop{false};
      std::vector<std::thread> threads;
      for (int i = 0; i < 3; ++i) threads.emplace_back(map_and_unmap, std::cref(stop));
      threads.emplace_back(fork_often, std::cref(stop));
      const Choice& choice = start_monitor({.monitor = "patcher"});
      EXPECT_NE(choice.monitor, nullptr) << choice.reasons;
      stop = true;
      for (std::thread& thread : threads) thread.join();
    });
  }
}

TEST_F(Monitored, ThePatcherRefusesWithThreadsWhereMembarrierIsRefused) {
  in_fresh_process([] {
    test::refuse_system_call(SYS_membarrier);
    std::mutex mutex;
    std::unique_lock lock{mutex};
    std::thread other{[&] { const std::lock_guard waits{mutex}; }};
    const Choice& choice = start_monitor({.monitor = "patcher"});
    EXPECT_EQ(choice.monitor, nullptr);
    EXPECT_THAT(choice.reasons, HasSubstr("several threads run, and membarrier(SYNC_CORE) fails"));
    lock.unlock();
    other.join();
  });
}

TEST(MonitorChoice, NoneAndExplicitAreWhatTheySay) {
  in_fresh_process([] {
    EXPECT_EQ(chosen_monitor(), nullptr);
    EXPECT_EQ(start_monitor({.monitor = "none"}).monitor, nullptr);
    EXPECT_EQ(start_monitor({.monitor = "explicit"}).monitor, nullptr) << "the first choice stays";
  });
  in_fresh_process([] {
    const Choice& choice = start_monitor({.monitor = "explicit"});
    ASSERT_NE(choice.monitor, nullptr);
    EXPECT_STREQ(choice.monitor, "explicit");
    EXPECT_EQ(chosen_monitor(), &choice);
  });
}

TEST(MonitorChoice, TheSelfTestFailsIfNothingIsReported) {
  in_fresh_process([] {
    const Result<void> outcome = self_test();
    ASSERT_FALSE(outcome);
    EXPECT_THAT(outcome.error().where, HasSubstr("munmap went unseen"));
  });
}

/// Two Contexts of a process with this monitor; `a` reads what `b` exposes.
struct Readers {
  explicit Readers(const char* monitor) : settings(with(monitor)) {
    to_b = *a.context->connect(b.context->address());
    EXPECT_EQ(to_b->send_or_queue(test::kTag, bytes_of(std::uint64_t{0}), {}), Post::done);
    EXPECT_TRUE(test::pump([&] { return b.messages == 1; }, *a.context, *b.context));
  }
  static config::Store with(const char* monitor) {
    config::Store store;
    store.set("memory_monitor", monitor);
    return store;
  }
  /// A handle of the memory, of a registration that is not used any more.
  std::vector<std::byte> handle_of(MutableBytes memory) {
    auto exposed = b.from->expose(memory.data(), memory.size(), Rights::all);
    EXPECT_TRUE(exposed);
    return {exposed->handle().begin(), exposed->handle().end()};
  }
  /// The first byte of the memory of `handle`, or nothing.
  std::optional<std::byte> read(MutableBytes memory, const std::vector<std::byte>& handle) {
    std::vector<std::byte> bytes(memory.size());
    const auto remote = *MemoryHandle::from_bytes(handle);
    const Error end = test::finish(
        [&](Completion& done) {
          return to_b->get(bytes.data(), reinterpret_cast<std::uint64_t>(memory.data()), remote, bytes.size(), done);
        },
        *a.context, *b.context);
    return end.code == Errc{} ? std::optional{bytes[0]} : std::nullopt;
  }

  config::Store settings;
  test::Side a{"sim", am::ThreadLevel::single, {}, settings};
  test::Side b{"sim", am::ThreadLevel::single, {}, settings};
  am::Endpoint* to_b = nullptr;
};

TEST(MonitorChoice, ExplicitKeepsARegistrationUntilTheProgramSaysThatItsMemoryWent) {
  in_fresh_process([] {
    Readers readers{"explicit"};
    ASSERT_STREQ(chosen_monitor()->monitor, "explicit");
    auto memory = *Mapping::anonymous(std::size_t{1} << 16);
    std::memset(memory.data(), 1, memory.size());
    const auto old = readers.handle_of(memory.bytes());
    EXPECT_EQ(readers.read(memory.bytes(), old), std::byte{1});
    ASSERT_EQ(
        ::mmap(memory.data(), memory.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
        memory.data());
    std::memset(memory.data(), 2, memory.size());
    EXPECT_EQ(readers.handle_of(memory.bytes()), old) << "no other reader is asked";
    opal_memory_released(memory.data(), memory.size());
    EXPECT_EQ(readers.read(memory.bytes(), old), std::nullopt);
    EXPECT_EQ(readers.read(memory.bytes(), readers.handle_of(memory.bytes())), std::byte{2});
  });
}

TEST(MonitorChoice, WithoutAMonitorNoRegistrationOutlivesItsUse) {
  in_fresh_process([] {
    Readers readers{"none"};
    auto memory = *Mapping::anonymous(std::size_t{1} << 16);
    const auto old = readers.handle_of(memory.bytes());
    EXPECT_EQ(readers.read(memory.bytes(), old), std::nullopt);
    EXPECT_NE(readers.handle_of(memory.bytes()), old);
    EXPECT_EQ(readers.b.context->registration_statistics().registered.count, 0U);
  });
}

}  // namespace
}  // namespace opal::memory
