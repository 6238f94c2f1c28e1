// SPDX-License-Identifier: Apache-2.0
// Copies from and to memory that cannot be touched, whatever the program does with its signals.
#include "opal/core/system/guarded_copy.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "opal/core/sanitizer.hpp"
#include "opal/core/system/fd.hpp"

namespace opal {
namespace {

/// Two pages, of which the second cannot be touched.
class HalfGone {
 public:
  HalfGone()
      : bytes_(static_cast<std::byte*>(
            ::mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    EXPECT_EQ(::mprotect(bytes_ + kPage, kPage, PROT_NONE), 0);
  }
  ~HalfGone() { ::munmap(bytes_, 2 * kPage); }
  HalfGone(const HalfGone&) = delete;
  HalfGone& operator=(const HalfGone&) = delete;
  [[nodiscard]] std::byte* data() const noexcept { return bytes_; }

  static constexpr std::size_t kPage = 4096;

 private:
  std::byte* bytes_;
};

/// Reads and writes, small and large, all of which fail; one of each that works.
void expect_refusals(const HalfGone& memory) {
  std::vector<std::byte> own(2 * HalfGone::kPage, std::byte{7});
  for (const std::size_t size : {std::size_t{1}, std::size_t{100}, HalfGone::kPage + 1}) {
    std::byte* const past = memory.data() + HalfGone::kPage + 1 - size;
    EXPECT_FALSE(guarded_copy(own.data(), past, size)) << size;
    EXPECT_FALSE(guarded_copy(past, own.data(), size)) << size;
  }
  own.assign(own.size(), std::byte{8});
  ASSERT_TRUE(guarded_copy(memory.data(), own.data(), HalfGone::kPage));
  EXPECT_EQ(memory.data()[HalfGone::kPage - 1], std::byte{8});
  own.assign(own.size(), std::byte{9});
  ASSERT_TRUE(guarded_copy(own.data(), memory.data(), HalfGone::kPage));
  EXPECT_EQ(own[HalfGone::kPage - 1], std::byte{8});
}

TEST(GuardedCopy, EveryFaultIsAnErrorAndLeavesTheSignalMaskAsItWas) {
  const HalfGone memory;
  sigset_t before;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &before);
  for (int i = 0; i < 3; ++i) {
    expect_refusals(memory);
    sigset_t after;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &after);
    for (int signal = 1; signal < NSIG; ++signal) EXPECT_EQ(sigismember(&after, signal), sigismember(&before, signal));
  }
}

TEST(GuardedCopy, AnAccessThatIsNoCopyEndsInTheSameWay) {
  if constexpr (OPAL_THREAD_SANITIZER)
    GTEST_SKIP() << "needs no ThreadSanitizer: its fetch_add holds a lock when it faults";
  const HalfGone memory;
  auto* const good = reinterpret_cast<std::uint64_t*>(memory.data());
  auto* const bad = reinterpret_cast<std::uint64_t*>(memory.data() + HalfGone::kPage);
  std::uint64_t old = 77;
  const auto increment = [&](std::uint64_t* word) {
    return guarded_access(word, sizeof *word, [&] { old = std::atomic_ref<std::uint64_t>{*word}.fetch_add(1); });
  };
  EXPECT_TRUE(increment(good));
  EXPECT_EQ(old, 0U);
  old = 77;
  EXPECT_FALSE(increment(bad));
  EXPECT_EQ(old, 77U);
  EXPECT_EQ(*good, 1U);
}

TEST(GuardedCopy, OneInsideAnotherEndsAlone) {
  const HalfGone memory;
  const HalfGone other;
  std::byte byte{};
  bool inner = true;
  EXPECT_FALSE(guarded_access(memory.data(), 2 * HalfGone::kPage, [&] {
    inner = guarded_copy(&byte, other.data() + HalfGone::kPage, 1);
    static_cast<volatile std::byte*>(memory.data())[HalfGone::kPage] = byte;
  })) << "the outer guard is in place again";
  EXPECT_FALSE(inner);
}

TEST(GuardedCopy, AThreadThatBlocksTheSignalsIsGuardedToo) {
  const HalfGone memory;
  std::thread quiet{[&] {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
    expect_refusals(memory);
  }};
  quiet.join();
}

TEST(GuardedCopy, ThreadsFaultAtTheSameTime) {
  const HalfGone memory;
  std::array<std::thread, 4> threads;
  for (std::thread& thread : threads) {
    thread = std::thread{[&] {
      std::byte byte{};
      for (int i = 0; i < 500; ++i) EXPECT_FALSE(guarded_copy(&byte, memory.data() + HalfGone::kPage, 1));
    }};
  }
  for (std::thread& thread : threads) thread.join();
}

#if !OPAL_ADDRESS_SANITIZER && !OPAL_THREAD_SANITIZER
/// Copies so much that the next copy asks the kernel again whether a fault would be noticed.
void copy_much() {
  std::vector<std::byte> from(8 << 20);
  std::vector<std::byte> to(from.size());
  ASSERT_TRUE(guarded_copy(to.data(), from.data(), from.size()));
}

TEST(GuardedCopy, AProgramThatReplacesTheHandlersLaterIsGuardedAndKeepsThem) {
  EXPECT_EXIT(
      {
        const HalfGone memory;
        expect_refusals(memory);
        struct sigaction own {};
        own.sa_handler = [](int) { std::_Exit(17); };
        ::sigaction(SIGSEGV, &own, nullptr);
        copy_much();
        expect_refusals(memory);
        if (testing::Test::HasFailure()) std::_Exit(1);
        *static_cast<volatile std::byte*>(memory.data() + HalfGone::kPage) = std::byte{};
      },
      testing::ExitedWithCode(17), "");
}

TEST(GuardedCopy, AFaultThatIsNotItsOwnGoesToTheHandlerThatTheProgramHadBefore) {
  EXPECT_EXIT(
      {
        struct sigaction own {};
        own.sa_handler = [](int) { std::_Exit(18); };
        ::sigaction(SIGSEGV, &own, nullptr);
        const HalfGone memory;
        expect_refusals(memory);
        if (testing::Test::HasFailure()) std::_Exit(1);
        *static_cast<volatile std::byte*>(memory.data() + HalfGone::kPage) = std::byte{};
      },
      testing::ExitedWithCode(18), "");
}

TEST(GuardedCopy, AFaultThatIsNotItsOwnStillEndsTheProcess) {
  EXPECT_EXIT(
      {
        std::byte a{};
        std::byte b{};
        if (!guarded_copy(&a, &b, 1)) std::_Exit(1);
        const Fd file{::memfd_create("empty", MFD_CLOEXEC)};
        const auto* gone = static_cast<volatile char*>(::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file.get(), 0));
        std::_Exit(*gone);
      },
      testing::KilledBySignal(SIGBUS), "");
}

TEST(GuardedCopy, ASignalThatAProcessSendsStillEndsTheProcess) {
  for (const int number : {SIGSEGV, SIGBUS}) {
    EXPECT_EXIT(
        {
          std::byte a{};
          std::byte b{};
          if (!guarded_copy(&a, &b, 1)) std::_Exit(1);
          ::kill(::getpid(), number);
          std::_Exit(2);
        },
        testing::KilledBySignal(number), "");
  }
}

TEST(GuardedCopy, ASignalThatAProcessSendsAndTheProgramIgnoresLeavesTheGuardInPlace) {
  EXPECT_EXIT(
      {
        ::signal(SIGSEGV, SIG_IGN);
        copy_much();  // an earlier test of this process may have installed the handlers
        const HalfGone memory;
        expect_refusals(memory);
        ::kill(::getpid(), SIGSEGV);
        expect_refusals(memory);
        std::_Exit(testing::Test::HasFailure() ? 1 : 19);
      },
      testing::ExitedWithCode(19), "");
}
#endif

}  // namespace
}  // namespace opal
