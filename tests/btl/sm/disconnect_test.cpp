// SPDX-License-Identifier: Apache-2.0
// Disconnecting while a transfer is under way, in every mode: each completion runs once, and when it has run the peer
// touches the transfer's memory no more.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/btl/sm/own_memory.hpp"
#include "tests/btl/sm/sides.hpp"
#include "tests/conformance/side.hpp"
#include "tests/harness/in_child.hpp"

namespace opal::btl::sm {
namespace {

using test::CountedCompletion;
using test::in_child;
using test::pattern;
using test::pump;
using test::Side;

constexpr std::size_t kRegion = 6'000'000;

struct Mode {
  const char* way;
  const char* single_copy;
  bool put;
};
constexpr Mode kModes[] = {{"alone", "cma", false},      {"alone", "cma", true},  {"cooperative", "cma", false},
                           {"cooperative", "cma", true}, {"auto", "cma", false},  {"auto", "cma", true},
                           {"pipelined", "cma", false},  {"auto", "none", false}, {"auto", "none", true},
                           {"pipelined", "none", false}};

test::Side::Open open(const Mode& mode) { return with(forced(mode.way, mode.single_copy)); }

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

class SmDisconnect : public testing::TestWithParam<Mode> {
 protected:
  SmDisconnect() : region_(pattern(kRegion, 5)), own_(kRegion, std::byte{1}) {
    there_ = a_.connect(b_);
    handle_ = *b_.module().register_memory(region_.data(), kRegion, Rights::all);
  }
  Post begin() {
    const std::uint64_t address = address_of(region_.data());
    return GetParam().put ? a_.module().put(*there_, own_.data(), nullptr, address, handle_, kRegion, transfer_)
                          : a_.module().get(*there_, own_.data(), nullptr, address, handle_, kRegion, transfer_);
  }
  [[nodiscard]] bool arrived() const { return own_ == region_; }

  Side a_{open(GetParam())};
  Side b_{open(GetParam())};
  btl::Endpoint* there_;
  std::vector<std::byte> region_;
  std::vector<std::byte> own_;
  MemoryHandle handle_;
  CountedCompletion transfer_;
};

TEST_P(SmDisconnect, ByTheInitiatorEndsTheTransferOnceAndForGood) {
  const Post post = begin();
  b_.module().progress(64);
  a_.module().progress(1);
  b_.module().progress(1);
  a_.module().disconnect(*there_);
  if (post == Post::queued) {
    EXPECT_EQ(transfer_.calls, 1);
    EXPECT_TRUE(transfer_.ok() || transfer_.error.code == Errc::canceled) << to_string(transfer_.error);
  }
  std::fill(own_.begin(), own_.end(), std::byte{2});
  const auto region = region_;
  ASSERT_TRUE(pump([&] { return b_.failures.size() == 1; }, a_, b_));
  EXPECT_EQ(std::count(own_.begin(), own_.end(), std::byte{2}), static_cast<std::ptrdiff_t>(kRegion));
  EXPECT_LE(transfer_.calls, 1);
}

TEST_P(SmDisconnect, ByTheTargetEndsTheTransferOnceAndForGood) {
  const Post post = begin();
  b_.module().progress(64);
  a_.module().progress(1);
  ASSERT_EQ(b_.accepted.size(), 1U);
  b_.module().disconnect(*b_.accepted[0]);
  const auto region = region_;
  ASSERT_TRUE(pump([&] { return a_.failures.size() == 1; }, a_));
  if (post == Post::queued) {
    EXPECT_EQ(transfer_.calls, 1);
    EXPECT_TRUE(transfer_.ok() ? arrived() : transfer_.error.code == Errc::peer_gone) << to_string(transfer_.error);
  }
}

TEST_P(SmDisconnect, ByBothEndsTheTransfersOfBothOnce) {
  auto back_region = pattern(kRegion, 6);
  auto back_own = pattern(kRegion, 7);
  const MemoryHandle back_handle = *a_.module().register_memory(back_region.data(), kRegion, Rights::all);
  const Post post = begin();
  b_.module().progress(64);
  ASSERT_EQ(b_.accepted.size(), 1U);
  btl::Endpoint& back = *b_.accepted[0];
  CountedCompletion other;
  const Post other_post =
      b_.module().get(back, back_own.data(), nullptr, address_of(back_region.data()), back_handle, kRegion, other);
  a_.module().progress(1);
  b_.module().progress(1);
  a_.module().disconnect(*there_);
  b_.module().disconnect(back);
  EXPECT_EQ(transfer_.calls, post == Post::queued ? 1 : 0);
  EXPECT_EQ(other.calls, other_post == Post::queued ? 1 : 0);
}

/// The claim word lies in memory that parent and child share, and so does what the parent gets.
TEST_P(SmDisconnect, ByAForkedChildLeavesTheTransferToItsParent) {
  const Post post = begin();
  ASSERT_NE(post, Post::failed);
  EXPECT_EQ(in_child([&] {
              const int before = transfer_.calls;
              a_.module().disconnect(*there_);
              return transfer_.calls - before;
            }),
            0)
      << "the parent's completion ran in the child";
  ASSERT_TRUE(pump([&] { return post == Post::done || transfer_.calls == 1; }, a_, b_));
  EXPECT_TRUE(transfer_.ok()) << to_string(transfer_.error);
  EXPECT_TRUE(arrived());
  EXPECT_TRUE(b_.failures.empty());
}

INSTANTIATE_TEST_SUITE_P(Modes, SmDisconnect, testing::ValuesIn(kModes), [](const auto& info) {
  return std::string{info.param.way} + (info.param.put ? "_put_" : "_get_") + info.param.single_copy;
});

/// What the program may do once the transfer has ended.  ThreadSanitizer does not see what orders it after the copy: an
/// atomic in memory that each of the two modules maps at an address of its own.
__attribute__((no_sanitize("thread"))) void fill(volatile std::byte* bytes, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) bytes[i] = std::byte{0x55};
}

class SmDisconnectWithinACopy : public testing::TestWithParam<bool> {};  // of a put

TEST_P(SmDisconnectWithinACopy, WaitsUntilThePeerHasFinishedIt) {
  constexpr std::uint64_t kWindow = XpmemMechanism::kWindow;
  constexpr std::size_t kMapped = 3 * kWindow;
  auto* const mapped = static_cast<std::byte*>(
      ::mmap(nullptr, kMapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  ASSERT_NE(mapped, MAP_FAILED);
  const std::uint64_t window = align_up(address_of(mapped), kWindow);  // nothing else lies in it
  auto* const own = reinterpret_cast<std::byte*>(window);
  const bool put = GetParam();

  const auto device_a = std::make_shared<OwnMemory>();
  const auto device_b = std::make_shared<OwnMemory>();
  auto region = pattern(kRegion, 5);
  std::atomic<bool> copying{false};
  std::atomic<bool> ending{false};
  std::atomic<bool> ended{false};
  std::atomic<bool> ended_too_early{false};
  device_b->on_attach = [&](std::uint64_t attached) {
    if (attached != window) return;
    copying = true;
    while (!ending) std::this_thread::yield();
    // If the other side does not wait, it ends within this time, or the test shows nothing.
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds{20};
    while (!ended && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    ended_too_early = ended.load();
  };
  Doubled a{device_a, "xpmem", "cooperative"};
  Doubled b{device_b, "xpmem", "cooperative"};
  btl::Endpoint& there = **a.module->connect(b.host.id(), b.module->address());
  ASSERT_TRUE(there.one_sided()) << there.describe();
  const MemoryHandle handle = *b.module->register_memory(region.data(), kRegion, Rights::all);
  CountedCompletion transfer;
  const Post post = put ? a.module->put(there, own, nullptr, address_of(region.data()), handle, kRegion, transfer)
                        : a.module->get(there, own, nullptr, address_of(region.data()), handle, kRegion, transfer);
  ASSERT_EQ(post, Post::queued);
  std::thread target{[&] {
    while (!ended) b.module->progress(64);
  }};
  while (!copying) std::this_thread::yield();
  ending = true;
  a.module->disconnect(there);
  EXPECT_EQ(transfer.calls, 1);
  fill(own, kRegion);
  ended = true;
  target.join();
  EXPECT_FALSE(ended_too_early);
  EXPECT_EQ(std::count(own, own + kRegion, std::byte{0x55}), static_cast<std::ptrdiff_t>(kRegion));
  ::munmap(mapped, kMapped);
}

INSTANTIATE_TEST_SUITE_P(Of, SmDisconnectWithinACopy, testing::Bool(),
                         [](const auto& info) { return info.param ? "APut" : "AGet"; });

}  // namespace
}  // namespace opal::btl::sm
