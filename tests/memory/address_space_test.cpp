// SPDX-License-Identifier: Apache-2.0
// The table of mappings against the kernel's list: after every call of random traffic, after threads, and in a fork.
#include "opal/memory/address_space/address_space.hpp"
#include "opal/core/sanitizer.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <sstream>
#include <string_view>
#include <thread>
#include <vector>

#include "opal/core/config/store.hpp"
#include "opal/memory/events/monitor.hpp"
#include "opal/memory/process_maps.hpp"
#include "tests/memory/no_free_descriptor.hpp"
#include "tests/memory/table_ranges.hpp"

namespace opal::memory {
namespace {

constexpr std::size_t kPage = 4096;

/// What the table has to be, and whatever reading it maps is mapped before.
std::vector<MappedRange> kernels_list() {
  std::vector<MappedRange> list;
  list.reserve(4096);
  ProcessMaps maps;
  for (MapsEntry entry; maps.next(entry);) {
    if (entry.range.end >= std::uintptr_t{1} << 63) continue;
    const std::uint32_t access = access_of(entry.protection);
    if (!list.empty() && list.back().range.end == entry.range.begin && list.back().access == access) {
      list.back().range.end = entry.range.end;
    } else {
      list.push_back({entry.range, access});
    }
  }
  return list;
}

class AddressSpace : public ::testing::Test {
 protected:
  void SetUp() override {
#if OPAL_ADDRESS_SANITIZER || OPAL_THREAD_SANITIZER
    GTEST_SKIP()
        << "needs a build without sanitizer: theirs map by system calls of their own, which cannot be followed";
#endif
    const Config config = *config::Store::from_environment().load(kGroup);
    if (const Choice& choice = start_monitor(config);
        choice.monitor == nullptr || std::string_view{choice.monitor} != "patcher") {
      GTEST_SKIP() << "needs patcher: x86-64, and a program that starts with one thread: " << choice.reasons;
    }
    grow_stack();
    shared.reset(static_cast<SharedMappings*>(
        ::mmap(nullptr, sizeof(SharedMappings), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)));
    auto made = MappingTable::create(*shared);
    ASSERT_TRUE(made);
    table = std::make_unique<MappingTable>(std::move(*made));
    ASSERT_TRUE(address_space::follow(*table));
  }
  void TearDown() override {
    if (table != nullptr) address_space::unfollow(*table);
  }
  /// The stack grows by faults, not by calls: let it be as large as it will get.
  static void grow_stack() {
    volatile char room[256 * 1024];
    for (std::size_t i = 0; i < sizeof room; i += kPage) room[i] = 1;
  }
  /// As the kernel's list has it, which knows no exclusion.  Does not allocate.
  static std::vector<MappedRange> without_exclusion(std::vector<MappedRange> ranges) {
    std::size_t last = 0;
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const MappedRange next{ranges[i].range, ranges[i].access & ~kExcluded};
      if (i != 0 && ranges[last].range.end == next.range.begin && ranges[last].access == next.access) {
        ranges[last].range.end = next.range.end;
      } else {
        ranges[i == 0 ? 0 : ++last] = next;
      }
    }
    if (!ranges.empty()) ranges.resize(last + 1);
    return ranges;
  }
  /// True, or an explanation.
  ::testing::AssertionResult equals_the_kernels_list() {
    // Taken one after the other: the vectors are sized before, so nothing is mapped between.
    std::vector<MappedRange> wanted = kernels_list();
    const auto now = without_exclusion(ranges_of(*shared));
    if (std::equal(wanted.begin(), wanted.end(), now.begin(), now.end())) return ::testing::AssertionSuccess();
    wanted = kernels_list();  // the heap may have grown for the first list itself
    const std::vector<MappedRange> have = without_exclusion(ranges_of(*shared));
    std::ostringstream text;
    text << std::hex;
    for (const MappedRange& r : wanted) {
      if (std::find(have.begin(), have.end(), r) == have.end()) {
        text << "kernel: " << r.range.begin << "-" << r.range.end << " " << r.access << "\n";
      }
    }
    for (const MappedRange& r : have) {
      if (std::find(wanted.begin(), wanted.end(), r) == wanted.end()) {
        text << "table:  " << r.range.begin << "-" << r.range.end << " " << r.access << "\n";
      }
    }
    if (text.str().empty()) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << text.str();
  }
  [[nodiscard]] Result<void> check(const void* address, std::size_t size, std::uint32_t wanted) const {
    return MappingView{*shared}.check(reinterpret_cast<std::uint64_t>(address), size, wanted);
  }

  struct Unmap {
    void operator()(SharedMappings* s) const { ::munmap(s, sizeof *s); }
  };
  std::unique_ptr<SharedMappings, Unmap> shared;
  std::unique_ptr<MappingTable> table;
};

/// Calls at random on a few areas, so that they hit each other's pieces.
class Traffic {
 public:
  explicit Traffic(std::uint64_t seed) : random_(seed) {
    for (std::byte*& area : areas_) area = map(kPages * kPage);
  }
  ~Traffic() {
    for (std::byte* area : areas_) ::munmap(area, kPages * kPage);
    for (void* block : blocks_) std::free(block);
  }

  /// Does something and says what.
  const char* step() {
    std::byte* const area = areas_[pick(areas_.size())];
    const std::size_t first = pick(kPages);
    const std::size_t length = (1 + pick(kPages - first)) * kPage;
    std::byte* const at = area + first * kPage;
    static constexpr int kProtections[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE, PROT_WRITE};
    const int protection = kProtections[pick(4)];
    switch (pick(11)) {
      case 0: return ::munmap(at, length), "munmap";
      case 1: return ::mmap(at, length, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), "mmap(FIXED)";
      case 2:
        return ::mmap(at, length, protection, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
               "mmap(FIXED_NOREPLACE)";
      case 3: return ::mprotect(at, length, protection), "mprotect";
      case 4: return (void)::mremap(at, length, pick(kPages) * kPage, 0), "mremap in place";
      case 5: {
        std::byte* const other = areas_[pick(areas_.size())] + pick(kPages / 2) * kPage;
        return (void)::mremap(at, kPage, kPage, MREMAP_MAYMOVE | MREMAP_FIXED, other), "mremap(FIXED)";
      }
      case 6: return ::munmap(at + 1, length), "munmap of no page";
      case 7: {
        void*& block = blocks_[pick(blocks_.size())];
        block = std::realloc(block, pick(1U << 21) + 1);
        return "realloc";
      }
      case 8: {
        void*& block = blocks_[pick(blocks_.size())];
        std::free(block);
        block = nullptr;
        return "free";
      }
      case 9: return ::madvise(at, length, MADV_DONTNEED), "madvise";
      default: {
        const int id = ::shmget(IPC_PRIVATE, 3 * kPage, IPC_CREAT | 0600);
        if (id < 0) return "shmget refused";
        void* const attached = ::shmat(id, nullptr, 0);
        ::shmctl(id, IPC_RMID, nullptr);
        if (pick(2) == 0 || attached == reinterpret_cast<void*>(-1)) return "shmat";
        return ::shmdt(attached), "shmat, shmdt";
      }
    }
  }

 private:
  static constexpr std::size_t kPages = 16;
  static std::byte* map(std::size_t size) {
    return static_cast<std::byte*>(::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  std::size_t pick(std::size_t below) { return random_() % below; }
  std::mt19937_64 random_;
  std::array<std::byte*, 3> areas_{};
  std::array<void*, 16> blocks_{};
};

TEST_F(AddressSpace, EqualsTheKernelsListAfterEveryCallOfRandomTraffic) {
  ASSERT_TRUE(equals_the_kernels_list());
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    // With excluded memory, each call that takes memory away is alone.
    const long excluded = seed % 2 == 0 ? address_space::map_excluded(*table, kPage, PROT_READ | PROT_WRITE,
                                                                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                        : 0;
    ASSERT_GE(excluded, 0);
    Traffic traffic{seed};
    for (int step = 0; step < 1000; ++step) {
      const char* const what = traffic.step();
      ASSERT_TRUE(equals_the_kernels_list()) << what << ", seed " << seed << ", step " << step;
    }
    if (excluded != 0) ::munmap(reinterpret_cast<void*>(excluded), kPage);
  }
}

TEST_F(AddressSpace, EqualsTheKernelsListAfterThreadsMappedAndUnmapped) {
  std::vector<std::thread> threads;
  for (std::uint64_t seed = 10; seed < 14; ++seed) {
    threads.emplace_back([seed] {
      std::vector<void*> blocks(8);
      std::mt19937_64 random{seed};
      for (int i = 0; i < 3000; ++i) {
        void*& block = blocks[random() % blocks.size()];
        if (random() % 2 == 0) {
          if (block != nullptr) ::munmap(block, 8 * kPage);
          block = ::mmap(nullptr, 8 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        } else if (block != nullptr) {
          ::mprotect(static_cast<std::byte*>(block) + kPage, kPage, random() % 2 == 0 ? PROT_READ : PROT_NONE);
        }
        std::free(std::malloc(random() % 1000000));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(equals_the_kernels_list());
}

#if defined(__x86_64__)
constexpr unsigned long long kTrapFlag = 0x100;
int steps = 0;
int act_after = 0;
std::function<void()> act;

void on_step(int /*signal*/, siginfo_t* /*info*/, void* context) {
  if (++steps != act_after) return;
  act();
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] &= ~static_cast<greg_t>(kTrapFlag);
}

/// Runs `body` instruction by instruction, and `act` in a signal handler after `act_after` of them; the rest at once.
template <class Body>
int run_in_steps(Body body) {
  steps = 0;
  __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | kTrapFlag);
  body();
  __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() & ~kTrapFlag);
  return steps;
}

TEST_F(AddressSpace, WhatASignalHandlerMapsAtTheEndOfACallIsFound) {
  constexpr int kLast = 200;  // steps: from the last change of the tables to the end of the call
  struct sigaction old {};
  struct sigaction action {};
  action.sa_sigaction = on_step;
  action.sa_flags = SA_SIGINFO;
  ASSERT_EQ(::sigaction(SIGTRAP, &action, &old), 0);
  void* const page = ::mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void* inner = nullptr;
  act = [&] { inner = ::mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); };
  const auto call = [&] { ::mprotect(page, kPage, PROT_READ); };
  act_after = 0;
  call();  // the dynamic loader resolves it
  const int all = run_in_steps(call);
  ASSERT_GT(all, 0);
  for (act_after = std::max(1, all - kLast); act_after <= all; ++act_after) {
    inner = nullptr;
    run_in_steps(call);
    if (inner == nullptr) break;  // the call was a little shorter this time
    EXPECT_TRUE(check(inner, kPage, kReadable)) << "step " << act_after << " of " << all;
    ::munmap(inner, kPage);
  }
  EXPECT_GT(act_after, all - kLast / 4);
  ::munmap(page, kPage);
  ::sigaction(SIGTRAP, &old, nullptr);
}
#endif

TEST_F(AddressSpace, AForkedChildChangesNothingHere) {
  const pid_t child = ::fork();
  if (child == 0) {
    Traffic traffic{99};
    for (int i = 0; i < 200; ++i) (void)traffic.step();
    std::_Exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(equals_the_kernels_list());
}

TEST_F(AddressSpace, RightsAndBoundsAreThoseOfTheMapping) {
  auto* const at =
      static_cast<std::byte*>(::mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  EXPECT_TRUE(check(at, 4 * kPage, kReadable | kWritable));
  ::mprotect(at + kPage, kPage, PROT_READ);
  EXPECT_TRUE(check(at, 4 * kPage, kReadable));
  EXPECT_EQ(check(at, 4 * kPage, kWritable).error().code, Errc::permission);
  ::munmap(at + 2 * kPage, kPage);
  EXPECT_EQ(check(at, 4 * kPage, kReadable).error().code, Errc::invalid_argument);
  EXPECT_TRUE(check(at + 3 * kPage, kPage, kWritable));
  EXPECT_FALSE(check(nullptr, 1, kReadable));
  EXPECT_FALSE(check(at, SIZE_MAX, kReadable));
  ::munmap(at, 4 * kPage);
}

TEST_F(AddressSpace, WhatIsExcludedIsOutOfReachUntilItIsUnmapped) {
  auto* const at =
      static_cast<std::byte*>(::mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  const Range middle = Range::pages(reinterpret_cast<std::uintptr_t>(at + kPage), kPage);
  address_space::exclude(*table, middle, true);
  EXPECT_FALSE(check(at + kPage, 1, kReadable));
  EXPECT_TRUE(check(at, kPage, kReadable));
  ::mprotect(at, 3 * kPage, PROT_READ);
  EXPECT_FALSE(check(at + kPage, 1, kReadable)) << "rights are another matter";
  address_space::refresh();
  EXPECT_FALSE(check(at + kPage, 1, kReadable)) << "so is reading the list again";
  address_space::exclude(*table, middle, false);
  EXPECT_TRUE(check(at, 3 * kPage, kReadable));
  address_space::exclude(*table, middle, true);
  ::munmap(at, 3 * kPage);
  ::mmap(at, 3 * kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  EXPECT_TRUE(check(at, 3 * kPage, kReadable)) << "new memory";
  ::munmap(at, 3 * kPage);
  const long hidden =
      address_space::map_excluded(*table, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_GT(hidden, 0);
  EXPECT_FALSE(check(reinterpret_cast<void*>(hidden), 1, kReadable));
  ::munmap(reinterpret_cast<void*>(hidden), kPage);
}

TEST_F(AddressSpace, ARefreshWithoutAFreeDescriptorChangesNothing) {
  void* const open = ::mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const long hidden =
      address_space::map_excluded(*table, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_GT(hidden, 0);
  {
    const test::NoFreeDescriptor none;
    address_space::refresh();
    EXPECT_TRUE(check(open, kPage, kReadable));
    EXPECT_FALSE(check(reinterpret_cast<void*>(hidden), kPage, kReadable));
  }
  address_space::refresh();
  EXPECT_TRUE(check(open, kPage, kReadable));
  EXPECT_FALSE(check(reinterpret_cast<void*>(hidden), kPage, kReadable)) << "it is still excluded";
  ::munmap(reinterpret_cast<void*>(hidden), kPage);
  ::munmap(open, kPage);
}

TEST_F(AddressSpace, TheNextMappingCallRepeatsARefreshThatFailed) {
  auto* const at = static_cast<std::byte*>(::mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  {
    const test::NoFreeDescriptor none;
    ASSERT_NE(::munmap(at + 1, kPage), 0);  // the tables have dropped the page before the kernel refused
    EXPECT_FALSE(check(at, kPage, kReadable));
  }
  void* const next = ::mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_TRUE(check(at, kPage, kReadable));
  EXPECT_TRUE(check(next, kPage, kReadable));
  ::munmap(next, kPage);
  ::munmap(at, kPage);
}

TEST_F(AddressSpace, WhatIsExcludedStaysExcludedWhereMremapMovesIt) {
  for (const bool grows : {false, true}) {
    auto* const at =
        static_cast<std::byte*>(::mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    void* const to = ::mmap(nullptr, 8 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    address_space::exclude(*table, Range::pages(reinterpret_cast<std::uintptr_t>(at + 2 * kPage), 2 * kPage), true);
    const std::size_t size = (grows ? 6 : 4) * kPage;
    auto* const now = static_cast<std::byte*>(::mremap(at, 4 * kPage, size, MREMAP_MAYMOVE | MREMAP_FIXED, to));
    ASSERT_EQ(now, to);
    EXPECT_TRUE(check(now, 2 * kPage, kReadable | kWritable)) << "this half was not excluded";
    EXPECT_FALSE(check(now + 2 * kPage, kPage, kReadable));
    EXPECT_FALSE(check(now + 3 * kPage, kPage, kReadable));
    if (grows) {
      EXPECT_FALSE(check(now + 5 * kPage, kPage, kReadable)) << "what it has grown by";
    }
    ::mmap(at, 4 * kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    EXPECT_TRUE(check(at, 4 * kPage, kReadable)) << "other memory at the old place";
    address_space::refresh();
    EXPECT_FALSE(check(now + 2 * kPage, kPage, kReadable));
    ::munmap(at, 4 * kPage);
    ::munmap(to, 8 * kPage);
  }
}

TEST_F(AddressSpace, WhatIsExcludedStaysExcludedWhereItGrowsInPlace) {
  auto* const at =
      static_cast<std::byte*>(::mmap(nullptr, 8 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ::munmap(at + 2 * kPage, 6 * kPage);
  address_space::exclude(*table, Range::pages(reinterpret_cast<std::uintptr_t>(at), 2 * kPage), true);
  ASSERT_EQ(::mremap(at, 2 * kPage, 4 * kPage, 0), at);
  EXPECT_FALSE(check(at, kPage, kReadable));
  EXPECT_FALSE(check(at + 3 * kPage, kPage, kReadable));
  ASSERT_EQ(::mremap(at, 4 * kPage, kPage, 0), at);
  EXPECT_FALSE(check(at, kPage, kReadable));
  EXPECT_FALSE(check(at + kPage, kPage, kReadable));
  ::munmap(at, kPage);
}

TEST_F(AddressSpace, WhatIsExcludedStaysExcludedWhenTheKernelRefusesToMoveOrUnmapIt) {
  const long hidden =
      address_space::map_excluded(*table, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_GT(hidden, 0);
  auto* const at = reinterpret_cast<std::byte*>(hidden);
  ASSERT_EQ(::mremap(at, 2 * kPage, std::size_t{1} << 60, MREMAP_MAYMOVE), MAP_FAILED);
  EXPECT_FALSE(check(at, kPage, kReadable));
  ASSERT_NE(::munmap(at + 1, kPage), 0);
  EXPECT_FALSE(check(at, kPage, kReadable));
  auto* const now = static_cast<std::byte*>(::mremap(at, 2 * kPage, 64 * kPage, MREMAP_MAYMOVE));
  ASSERT_NE(now, MAP_FAILED);
  EXPECT_FALSE(check(now, kPage, kReadable));
  EXPECT_FALSE(check(now + 63 * kPage, kPage, kReadable));
  ::munmap(now, 64 * kPage);
}

TEST_F(AddressSpace, ASharedMappingThatIsExcludedStaysSoWhereItIsMappedOnceMore) {
  void* const at = ::mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  address_space::exclude(*table, Range::pages(reinterpret_cast<std::uintptr_t>(at), 2 * kPage), true);
  void* const twin = ::mremap(at, 0, 2 * kPage, MREMAP_MAYMOVE);
  ASSERT_NE(twin, MAP_FAILED);
  EXPECT_FALSE(check(twin, kPage, kReadable));
  EXPECT_FALSE(check(at, kPage, kReadable));
  ::munmap(at, 2 * kPage);
  ::munmap(twin, 2 * kPage);
}

}  // namespace
}  // namespace opal::memory
