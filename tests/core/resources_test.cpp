// SPDX-License-Identifier: Apache-2.0
// The small resource owners of opal/core: Fd and Mapping, and the clock.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "opal/core/clock.hpp"
#include "opal/core/system/fd.hpp"
#include "opal/core/system/mapping.hpp"

namespace opal {
namespace {

using namespace std::chrono_literals;

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

Fd new_memory(std::size_t size) {
  Fd fd{::memfd_create("opal-test", MFD_CLOEXEC)};
  EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(size)), 0);
  return fd;
}

TEST(Fd, ClosesItsDescriptorExactlyWhenItsOwnerEnds) {
  int number = -1;
  {
    Fd first = new_memory(1);
    number = first.get();
    const Fd second = std::move(first);
    EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): a moved-from Fd is specified to be empty
    EXPECT_TRUE(second);
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
}

TEST(Fd, MoveAssignmentClosesWhatItHeldAndReleaseKeepsItOpen) {
  Fd fd = new_memory(1);
  const int old = fd.get();
  Fd other = new_memory(1);
  const int kept = other.get();
  fd = std::move(other);
  EXPECT_FALSE(is_open(old));
  ASSERT_EQ(fd.release(), kept);
  EXPECT_TRUE(is_open(kept));
  fd.reset(kept);
  fd.reset();
  EXPECT_FALSE(is_open(kept));
}

TEST(Mapping, TwoMappingsOfOneDescriptorShowTheSameBytes) {
  constexpr std::size_t kSize = 8192;
  const Fd fd = new_memory(kSize);
  const Mapping one = Mapping::shared(fd.get(), kSize).value();
  const Mapping two = Mapping::shared(fd.get(), 4096, 4096, false).value();
  one.data()[4096] = std::byte{42};
  EXPECT_EQ(two.data()[0], std::byte{42});
  EXPECT_EQ(two.size(), 4096u);
}

TEST(Mapping, AnonymousMemoryIsZeroAndTheOwnerUnmapsIt) {
  std::byte* address = nullptr;
  {
    Mapping mapping = Mapping::anonymous(4096).value();
    address = mapping.data();
    EXPECT_TRUE(
        std::all_of(mapping.bytes().begin(), mapping.bytes().end(), [](std::byte b) { return b == std::byte{}; }));
    const Mapping moved = std::move(mapping);
    EXPECT_FALSE(mapping);  // NOLINT(bugprone-use-after-move): a moved-from Mapping is specified to be empty
    EXPECT_EQ(moved.data(), address);
  }
  unsigned char resident = 0;
  EXPECT_EQ(::mincore(address, 4096, &resident), -1);
  EXPECT_EQ(errno, ENOMEM) << "the pages are still mapped";
}

TEST(Mapping, FailsWithAnErrorThatKeepsErrno) {
  const Result<Mapping> bad = Mapping::shared(-1, 4096);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().os_errno, EBADF);
  EXPECT_EQ(Mapping::anonymous(0).error().os_errno, EINVAL);
}

TEST(Clock, NeverGoesBack) {
  std::uint64_t last = now_ns();
  for (int i = 0; i < 1000; ++i) {
    cpu_relax();
    const std::uint64_t now = now_ns();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(Deadline, EndsWhenItsTimeHasPassedAndNotBefore) {
  const Deadline past = Deadline::after(0ns);
  EXPECT_TRUE(past.expired());
  EXPECT_EQ(past.remaining(), 0ns);
  EXPECT_EQ(past.poll_timeout_ms(), 0);
  const Deadline future = Deadline::after(1h);
  EXPECT_FALSE(future.expired());
  EXPECT_GT(future.remaining(), 59min);
  EXPECT_LE(future.poll_timeout_ms(), 3'600'000);
}

TEST(Deadline, NeverIsNeverHoweverItIsAskedFor) {
  for (const Deadline never : {Deadline::never(), Deadline::after(-1ns)}) {
    EXPECT_TRUE(never.is_never());
    EXPECT_FALSE(never.expired());
    EXPECT_EQ(never.poll_timeout_ms(), -1);
  }
  EXPECT_FALSE(Deadline::after(std::chrono::nanoseconds::max()).expired());
}

}  // namespace
}  // namespace opal
