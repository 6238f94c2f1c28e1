// SPDX-License-Identifier: Apache-2.0
// Private memory of a peer that it has made shareable: found, mapped and used as that of a shared pool, also when
// blocks come and go, while the peer forks, and when it makes some of it private again.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "opal/btl/sm/module.hpp"
#include "opal/memory/monitor.hpp"
#include "opal/memory/shareable.hpp"
#include "tests/btl/sm/single_copy.hpp"
#include "tests/conformance/side.hpp"
#include "tests/harness/child.hpp"

namespace opal::btl::sm {
namespace {

using test::Channel;
using test::Child;
using test::CountedCompletion;
using test::pattern;
using test::pump;
using test::Side;

constexpr std::size_t kSize = std::size_t{2} << 20;

class SmShareable : public ::testing::Test {
 protected:
  void SetUp() override {
    memory::start_monitor({.shareable_from = 1_MiB, .shareable_size = 256_MiB});
    if (!block().shareable()) GTEST_SKIP() << "needs patcher: x86-64, and a program that starts with one thread";
  }

  /// Private memory as programs get it.
  struct Block {
    explicit Block() {
      void* const at = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      EXPECT_NE(at, MAP_FAILED);
      mapping = Mapping::adopt({static_cast<std::byte*>(at), kSize});
    }
    [[nodiscard]] std::byte* data() const { return mapping.data(); }
    [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(data()); }
    [[nodiscard]] bool shareable() const { return memory::shareable::holds({address(), address() + kSize}); }
    Mapping mapping;
  };
  static Block block() { return Block{}; }

  static void map_first(Side& initiator, btl::Endpoint& route, Side& owner, const Block& memory) {
    const MemoryHandle handle = *owner.module().register_memory(memory.data(), kSize, Rights::all);
    CountedCompletion first;
    std::byte byte{};
    const Post post = initiator.module().get(route, &byte, nullptr, memory.address(), handle, 1, first);
    ASSERT_NE(post, Post::failed) << to_string(first.error);
    ASSERT_TRUE(pump([&] { return (post == Post::done || first.calls == 1) && Module::pools_mapped(route) == 1; },
                     initiator, owner));
    ASSERT_TRUE(owner.module().deregister_memory(handle));
  }
};

TEST_F(SmShareable, BlocksThatComeAndGoAreReachedWithoutTheTargetOnceTheFirstWasMapped) {
  Side a{"sm", single_copy_by("shared")};
  Side b{"sm", single_copy_by("shared")};
  btl::Endpoint& route = *a.connect(b);
  ASSERT_NO_FATAL_FAILURE(map_first(a, route, b, block()));
  const auto bytes = pattern(10'000, 1);      // more may wait for the help of the target
  for (int round = 0; round < 50; ++round) {  // from here on b does nothing but to register
    const Block memory;
    const MemoryHandle handle = *b.module().register_memory(memory.data(), kSize, Rights::all);
    CountedCompletion completion;
    ASSERT_EQ(a.module().put(route, bytes.data(), nullptr, memory.address() + 77, handle, bytes.size(), completion),
              Post::done)
        << "round " << round;
    ASSERT_EQ(std::memcmp(memory.data() + 77, bytes.data(), bytes.size()), 0);
    ASSERT_EQ(memory.data()[77 + bytes.size()], std::byte{0}) << "what a block held before has gone";
    std::vector<std::byte> back(bytes.size());
    ASSERT_EQ(a.module().get(route, back.data(), nullptr, memory.address() + 77, handle, back.size(), completion),
              Post::done);
    ASSERT_EQ(back, bytes);
    ASSERT_TRUE(b.module().deregister_memory(handle));
  }
  EXPECT_EQ(Module::pools_mapped(route), 1U);
}

TEST_F(SmShareable, WhatIsNotSharedAnyMoreIsReachedInAnotherWay) {
  Side a{"sm"};
  Side b{"sm"};
  btl::Endpoint& route = *a.connect(b);
  const Block memory;
  ASSERT_NO_FATAL_FAILURE(map_first(a, route, b, memory));
  const MemoryHandle handle = *b.module().register_memory(memory.data(), kSize, Rights::all);
  const auto get = [&](std::size_t at) {
    std::byte value{};
    CountedCompletion completion;
    const Post post = a.module().get(route, &value, nullptr, memory.address() + at, handle, 1, completion);
    EXPECT_TRUE(post == Post::done || pump([&] { return completion.calls == 1; }, a, b));
    EXPECT_TRUE(completion.ok()) << to_string(completion.error);
    return static_cast<int>(value);
  };
  std::memset(memory.data(), 1, kSize);
  EXPECT_EQ(get(5000), 1);
  // The kernel demands private memory for this, so some of it becomes that.
  ASSERT_EQ(::madvise(memory.data() + 4096, 4096, MADV_WIPEONFORK), 0);
  std::memset(memory.data(), 2, kSize);
  EXPECT_EQ(get(5000), 2);
  EXPECT_EQ(get(0), 2);
  ASSERT_EQ(::madvise(memory.data(), kSize, MADV_DONTNEED), 0);
  EXPECT_EQ(get(0), 0);
  std::memset(memory.data(), 3, kSize);
  EXPECT_EQ(get(0), 3);
  EXPECT_EQ(get(5000), 3);
}

TEST_F(SmShareable, AForkOfTheOwnerLosesNoPutAndItsChildSeesNoneThatCameLater) {
  Child initiator{[&](Channel& owner) {
    Side side{"sm", single_copy_by("shared")};
    btl::Endpoint* const route = side.connect(owner.receive());
    const MemoryHandle handle = *MemoryHandle::from_bytes(owner.receive());
    std::uint64_t address = 0;
    if (!read_object(owner.receive(), address)) return 1;
    // Counts in every page, as long as the owner forks.
    std::uint64_t rounds = 0;
    for (; !owner.ready(); ++rounds) {
      for (std::size_t at = 0; at < kSize; at += 4096) {
        CountedCompletion completion;
        const AtomicRequest add{AtomicOp::add, AtomicType::u64, address + at, &handle, 1, 0, nullptr};
        const Post post = side.module().atomic(*route, add, completion);
        if (post == Post::failed) return 2;
        if (post == Post::queued && !pump([&] { return completion.calls == 1; }, side)) return 3;
      }
    }
    owner.send(bytes_of(rounds));
    return Module::pools_mapped(*route) == 1 && owner.expect("end") && owner.expect("bye") ? 0 : 4;
  }};
  Side side{"sm", single_copy_by("shared")};
  const Block memory;
  const MemoryHandle handle = *side.module().register_memory(memory.data(), kSize, Rights::all);
  initiator.channel().send(side.blob());
  initiator.channel().send(handle.bytes());
  initiator.channel().send(bytes_of(memory.address()));
  const auto* const count = reinterpret_cast<const std::uint64_t*>(memory.data());
  ASSERT_TRUE(pump([&] { return __atomic_load_n(count, __ATOMIC_RELAXED) > 3; }, side));
  for (int i = 0; i < 10; ++i) {
    int written_more[2];  // ends when the peer has written again
    ASSERT_EQ(::pipe(written_more), 0);
    const Fd end{written_more[0]};
    Fd begin{written_more[1]};
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const std::uint64_t then = *count;
      std::memset(memory.data(), 0xff, kSize / 2);
      begin.reset();
      char none = 0;
      if (::read(end.get(), &none, 1) != 0) ::_exit(2);
      ::_exit(then > 3 && *count == UINT64_MAX ? 0 : 1);
    }
    const std::uint64_t before = __atomic_load_n(count, __ATOMIC_RELAXED);
    ASSERT_TRUE(pump([&] { return __atomic_load_n(count, __ATOMIC_RELAXED) > before + 1; }, side));
    begin.reset();
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  initiator.channel().send("end");
  std::vector<std::byte> answer;
  ASSERT_TRUE(pump([&] { return initiator.channel().ready(); }, side));
  std::uint64_t rounds = 0;
  ASSERT_TRUE(read_object(initiator.channel().receive(), rounds));
  for (std::size_t at = 0; at < kSize; at += 4096) {
    ASSERT_EQ(*reinterpret_cast<const std::uint64_t*>(memory.data() + at), rounds) << "at " << at;
  }
  initiator.channel().send("bye");
  EXPECT_EQ(initiator.wait(), 0);
}

TEST_F(SmShareable, AForkedChildOpensTransportsOfItsOwnAndSharesNothingOfItsParents) {
  const Block memory;
  std::memset(memory.data(), 1, kSize);
  Child child{[&](Channel&) {
    Side a{"sm"};
    Side b{"sm"};
    btl::Endpoint& route = *a.connect(b);
    const MemoryHandle handle = *b.module().register_memory(memory.data(), kSize, Rights::all);
    const auto bytes = pattern(kSize, 5);
    CountedCompletion completion;
    const Post post = a.module().put(route, bytes.data(), nullptr, memory.address(), handle, kSize, completion);
    if (post != Post::done && !pump([&] { return completion.calls == 1; }, a, b)) return 1;
    if (Module::pools_mapped(route) != 0) return 2;
    return std::memcmp(memory.data(), bytes.data(), kSize) == 0 ? 0 : 3;
  }};
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(memory.data()[0], std::byte{1});
}

}  // namespace
}  // namespace opal::btl::sm
