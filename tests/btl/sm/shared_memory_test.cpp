// SPDX-License-Identifier: Apache-2.0
// Memory of shared pools: mapped by peers at its first use, bounded, right under puts, gets and atomics of several
// sides, and an error when its owner is gone.
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <deque>
#include <random>
#include <string_view>

#include "opal/btl/sm/module.hpp"
#include "opal/memory/events/monitor.hpp"
#include "opal/mpool/pool.hpp"
#include "opal/mpool/shared_directory.hpp"
#include "tests/btl/sm/internals.hpp"
#include "tests/btl/sm/raw_peer.hpp"
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

constexpr std::size_t kSize = 1'000'000;

std::unique_ptr<mpool::Pool> open_pool() {
  mpool::Config config;
  config.shared_size = 64_MiB;
  auto pool = mpool::open("shared", config);
  EXPECT_TRUE(pool) << to_string(pool.error());
  return std::move(*pool);
}

/// A block of a shared pool, registered at a side.
struct Exported {
  Exported(Side& owner, std::size_t size) : side(owner), pool(open_pool()), bytes(*pool->allocate(size, 64), size) {
    std::memset(bytes.data(), 0, size);
    handle = *side.module().register_memory(bytes.data(), size, Rights::all);
  }
  [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(bytes.data()); }
  Side& side;
  std::unique_ptr<mpool::Pool> pool;
  MutableBytes bytes;
  MemoryHandle handle;
};

/// Gets once through whatever there is, so that the pool is asked for, and waits until it is mapped.
void map_first(Side& initiator, btl::Endpoint& route, const Exported& memory, std::size_t expected = 1) {
  CountedCompletion first;
  std::byte byte{};
  const Post post = initiator.module().get(route, &byte, nullptr, memory.address(), memory.handle, 1, first);
  ASSERT_NE(post, Post::failed) << to_string(first.error);
  ASSERT_TRUE(pump([&] { return (post == Post::done || first.calls == 1) && mapped_pools(route) == expected; },
                   initiator, memory.side));
}

TEST(SmShared, PutGetAndAtomicsNeedNeitherTheTargetNorTheKernelOnceThePoolIsMapped) {
  Side a{"sm", single_copy_by("shared")};
  Side b{"sm", single_copy_by("shared")};
  btl::Endpoint& route = *a.connect(b);
  EXPECT_FALSE(route.one_sided()) << "private memory is out of reach";
  Exported memory{b, kSize};
  ASSERT_NO_FATAL_FAILURE(map_first(a, route, memory));
  // From here on b does nothing.
  const auto bytes = pattern(10'000, 1);
  CountedCompletion completion;
  ASSERT_EQ(
      a.module().put(route, bytes.data(), nullptr, memory.address() + 77, memory.handle, bytes.size(), completion),
      Post::done);
  EXPECT_EQ(std::memcmp(memory.bytes.data() + 77, bytes.data(), bytes.size()), 0);
  std::vector<std::byte> back(bytes.size());
  ASSERT_EQ(a.module().get(route, back.data(), nullptr, memory.address() + 77, memory.handle, back.size(), completion),
            Post::done);
  EXPECT_EQ(back, bytes);
  std::uint64_t old = 1;
  const AtomicRequest add{AtomicOp::add, AtomicType::u64, memory.address() + 20'000, &memory.handle, 5, 0, &old};
  ASSERT_EQ(a.module().atomic(route, add, completion), Post::done);
  ASSERT_EQ(a.module().atomic(route, add, completion), Post::done);
  EXPECT_EQ(old, 5U);
  EXPECT_EQ(*reinterpret_cast<std::uint64_t*>(memory.bytes.data() + 20'000), 10U);
  // Bounds and rights are checked as ever.
  EXPECT_EQ(a.module().get(route, back.data(), nullptr, memory.address() + kSize - 9, memory.handle, 10, completion),
            Post::failed);
  const auto readable = *b.module().register_memory(memory.bytes.data(), 100, Rights::remote_read);
  EXPECT_EQ(a.module().put(route, back.data(), nullptr, memory.address(), readable, 10, completion), Post::failed);
  EXPECT_EQ(completion.error.code, Errc::permission);
}

TEST(SmShared, WhenTheProgramMapsOtherMemoryOverABlockTheOldBytesAreNeverSeenUnderALiveHandle) {
  if (const memory::Choice& choice = memory::start_monitor({}); choice.monitor == nullptr) {
    GTEST_SKIP() << "needs patcher: x86-64, and a program that starts with one thread";
  }
  Side a{"sm"};
  Side b{"sm"};
  btl::Endpoint& route = *a.connect(b);
  Exported memory{b, kSize};
  std::byte* const page = reinterpret_cast<std::byte*>((memory.address() + 4095) & ~std::uint64_t{4095});
  constexpr std::size_t kPart = 100 << 10;
  std::memset(page, 1, kPart);
  ASSERT_NO_FATAL_FAILURE(map_first(a, route, memory));
  const auto get = [&](const MemoryHandle& handle) {
    std::vector<std::byte> bytes(kPart);
    CountedCompletion completion;
    const Post post =
        a.module().get(route, bytes.data(), nullptr, reinterpret_cast<std::uint64_t>(page), handle, kPart, completion);
    EXPECT_TRUE(post == Post::done || pump([&] { return completion.calls == 1; }, a, b));
    EXPECT_TRUE(completion.ok()) << to_string(completion.error);
    EXPECT_THAT(bytes, ::testing::Each(bytes[0]));
    return static_cast<int>(bytes[0]);
  };
  EXPECT_EQ(get(memory.handle), 1);
  // The pool's file, which a has mapped, still holds ones.
  ASSERT_EQ(::mmap(page, kPart, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), page);
  std::memset(page, 2, kPart);
  EXPECT_EQ(get(memory.handle), 2);
  const auto anew = *b.module().register_memory(page, kPart, Rights::all);
  EXPECT_EQ(get(anew), 2) << "nor is a new registration of the place taken for the pool's";
  ASSERT_EQ(::munmap(page, kPart), 0);
  ASSERT_EQ(::mmap(page, kPart, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), page);
  std::memset(page, 3, kPart);
  EXPECT_EQ(get(memory.handle), 3);
}

TEST(SmShared, ARandomMixOfOperationsOnMappedAndPrivateMemoryMatchesAModel) {
  Side a{"sm"};
  Side b{"sm"};
  btl::Endpoint& route = *a.connect(b);
  Exported shared{b, kSize};
  std::vector<std::byte> private_memory(kSize);
  const auto private_handle = *b.module().register_memory(private_memory.data(), kSize, Rights::all);
  std::vector<std::byte> model[2] = {std::vector<std::byte>(kSize), std::vector<std::byte>(kSize)};
  std::mt19937 random{7};
  for (int i = 0; i < 600; ++i) {
    // The pool's descriptor comes when the doormen have had their turn: some before, some after.
    if (i == 300) {
      ASSERT_TRUE(pump([&] { return mapped_pools(route) == 1; }, a, b));
    }
    const std::size_t which = random() % 2;
    const MemoryHandle& handle = which == 0 ? shared.handle : private_handle;
    const std::uint64_t base = which == 0 ? shared.address() : reinterpret_cast<std::uint64_t>(private_memory.data());
    const std::size_t size = 1 + random() % (std::size_t{1} << random() % 19);
    const std::size_t offset = random() % (kSize - size);
    CountedCompletion completion;
    if (random() % 2 == 0) {
      const auto bytes = pattern(size, random());
      std::memcpy(model[which].data() + offset, bytes.data(), size);
      const Post post = a.module().put(route, bytes.data(), nullptr, base + offset, handle, size, completion);
      ASSERT_TRUE(post == Post::done || pump([&] { return completion.calls == 1; }, a, b));
    } else {
      std::vector<std::byte> bytes(size);
      const Post post = a.module().get(route, bytes.data(), nullptr, base + offset, handle, size, completion);
      ASSERT_TRUE(post == Post::done || pump([&] { return completion.calls == 1; }, a, b));
      ASSERT_EQ(std::memcmp(bytes.data(), model[which].data() + offset, size), 0) << "operation " << i;
    }
  }
  EXPECT_EQ(std::memcmp(shared.bytes.data(), model[0].data(), kSize), 0);
  EXPECT_EQ(private_memory, model[1]);
}

TEST(SmShared, BothSidesCopyOfOneMappedMemoryIntoTheOtherBringsEveryByte) {
  config::Store store = single_copy_by("shared");
  store.set("btl_sm_large_get", "cooperative");
  Side a{"sm", store};
  Side b{"sm", store};
  btl::Endpoint& route = *a.connect(b);
  Exported source{b, kSize};
  Exported target{a, kSize};
  const auto bytes = pattern(kSize, 3);
  std::memcpy(source.bytes.data(), bytes.data(), kSize);
  ASSERT_NO_FATAL_FAILURE(map_first(a, route, source));
  ASSERT_NO_FATAL_FAILURE(map_first(b, *b.accepted.at(0), target));
  for (int round = 0; round < 20; ++round) {
    std::memset(target.bytes.data(), 0, kSize);
    CountedCompletion get;
    ASSERT_EQ(a.module().get(route, target.bytes.data(), nullptr, source.address(), source.handle, kSize, get),
              Post::queued);
    b.module().progress(64);  // its share first
    ASSERT_TRUE(pump([&] { return get.calls == 1; }, a, b));
    ASSERT_TRUE(get.ok());
    ASSERT_EQ(std::memcmp(target.bytes.data(), bytes.data(), kSize), 0);
  }
}

TEST(SmShared, MappingsAreBoundedAndAPoolThatWasGivenUpIsMappedAgain) {
  Side a{"sm", single_copy_by("shared")};
  Side b{"sm", single_copy_by("shared")};
  btl::Endpoint& route = *a.connect(b);
  std::deque<Exported> pools;
  for (std::size_t i = 0; i < SharedMechanism::kMost + 4; ++i) {
    pools.emplace_back(b, 4096);
    ASSERT_NO_FATAL_FAILURE(map_first(a, route, pools.back(), std::min(i + 1, SharedMechanism::kMost)));
  }
  ASSERT_NO_FATAL_FAILURE(map_first(a, route, pools.front(), SharedMechanism::kMost));
}

TEST(SmShared, APoolThatEndsGivesItsMemoryBackAndItsHandlesAreStale) {
  Side a{"sm", single_copy_by("shared")};
  Side b{"sm", single_copy_by("shared")};
  btl::Endpoint& route = *a.connect(b);
  CountedCompletion completion;
  std::vector<std::byte> bytes(100'000);
  std::uint64_t address = 0;
  MemoryHandle handle;
  {
    Exported memory{b, bytes.size()};
    address = memory.address();
    handle = memory.handle;
    ASSERT_NO_FATAL_FAILURE(map_first(a, route, memory));
    ASSERT_TRUE(b.module().deregister_memory(handle));
  }
  EXPECT_EQ(a.module().get(route, bytes.data(), nullptr, address, handle, bytes.size(), completion), Post::failed);
  EXPECT_EQ(completion.error.code, Errc::invalid_argument);
}

TEST(SmShared, TheOwnersDeathIsAnErrorAndNoSignal) {
  for (int round = 0; round < 10; ++round) {
    Child owner{[&](Channel& parent) {
      Side own{"sm", single_copy_by("shared")};
      Exported memory{own, kSize};
      parent.send(own.blob());
      parent.send(memory.handle.bytes());
      parent.send(bytes_of(memory.address()));
      while (true) own.module().progress(64);
      return 0;
    }};
    Side side{"sm", single_copy_by("shared")};
    btl::Endpoint* route = side.connect(owner.channel().receive());
    const MemoryHandle handle = *MemoryHandle::from_bytes(owner.channel().receive());
    std::uint64_t address = 0;
    ASSERT_TRUE(read_object(owner.channel().receive(), address));
    std::vector<std::byte> bytes(kSize);
    CountedCompletion completion;
    const auto get = [&] {
      const int before = completion.calls;
      const Post post = side.module().get(*route, bytes.data(), nullptr, address, handle, kSize, completion);
      if (post == Post::queued && !pump([&] { return completion.calls != before; }, side)) return false;
      return post != Post::failed && completion.ok();
    };
    ASSERT_TRUE(pump([&] { return get() && mapped_pools(*route) == 1; }, side));
    for (int i = 0; i < round * 3; ++i) ASSERT_TRUE(get());
    owner.kill();
    while (get()) {  // until the death is noticed the mapping keeps the memory there
    }
    EXPECT_TRUE(completion.error.code == Errc::peer_gone) << to_string(completion.error);
    ASSERT_TRUE(pump([&] { return side.failures.size() == 1; }, side));
  }
}

TEST(SmShared, APeerThatLiesAboutWhereItsPoolBeginsIsNotBelieved) {
  const auto pool = open_pool();
  const auto bytes = *pool->allocate(4096, 64);
  std::vector<std::uint32_t> asked;
  SharedMechanism mechanism;
  mechanism.on_need([&](std::uint32_t number) { asked.push_back(number); });
  EXPECT_EQ(mechanism.map({0x10000, 10, {}, 0}), nullptr) << "private";
  EXPECT_EQ(mechanism.map({0x10000, 10, {}, 9}), nullptr);
  EXPECT_EQ(mechanism.map({0x10000, 10, {}, 9}), nullptr);
  EXPECT_EQ(asked, std::vector<std::uint32_t>{9}) << "asked once";
  const auto access = *mpool::open_shared_pool(mpool::shared_pool_of(bytes, 1));
  auto map = mpool::SharedPool::attach(access.fd.get());
  const std::size_t size = map->size();
  mechanism.take({9, 0x10000, std::move(*map)});
  ASSERT_NE(mechanism.map({0x10000, 10, {}, 9}), nullptr);
  *bytes = std::byte{42};
  EXPECT_EQ(*mechanism.map({0x10000 + reinterpret_cast<std::uint64_t>(bytes) - access.base, 1, {}, 9}), std::byte{42});
  EXPECT_EQ(mechanism.map({0xffff, 10, {}, 9}), nullptr);
  EXPECT_EQ(mechanism.map({0x10000 + size - 5, 6, {}, 9}), nullptr);
  EXPECT_EQ(mechanism.map({0, UINT64_MAX, {}, 9}), nullptr);
}

TEST(SmShared, APoolThatDoesNotBeginAtAPageIsNotMapped) {
  const auto pool = open_pool();
  const auto access = *mpool::open_shared_pool(mpool::shared_pool_of(*pool->allocate(1), 1));
  for (const std::uint64_t base : {0x10000ULL, 0x10004ULL}) {
    EXPECT_EQ(static_cast<bool>(PeerPool::attach(9, base, access.fd.get()).map), base % 4096 == 0) << base;
  }
}

TEST(SmShared, APoolThatComesWhileNoDescriptorIsFreeStaysUnmappedAndThePeerConnected) {
  Child child{[](Channel& parent) {
    Side own{"sm"};
    btl::Endpoint* const route = own.connect(parent.receive());
    std::uint64_t address = 0;
    const bool told = read_object(parent.receive(), address);
    const auto handle = MemoryHandle::from_bytes(parent.receive());
    if (route == nullptr || !told || !handle) return 1;
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = static_cast<rlim_t>(Fd{::dup(0)}.get());
    ::setrlimit(RLIMIT_NOFILE, &limit);
    const auto bytes = pattern(kSize, 1);
    CountedCompletion completion;
    const Post post = own.module().put(*route, bytes.data(), nullptr, address, *handle, bytes.size(), completion);
    if (!pump([&] { return post == Post::done || completion.calls == 1; }, own)) return 2;
    if (!completion.ok() || mapped_pools(*route) != 0) return 3;
    parent.send("put");
    // The peer's answer to the request for the pool precedes its goodbye.
    if (!pump([&] { return !own.failures.empty(); }, own)) return 4;
    return std::string_view{own.failures[0].why.where}.find("has disconnected") != std::string_view::npos ? 0 : 5;
  }};
  {
    Side own{"sm"};
    const Exported memory{own, kSize};
    child.channel().send(own.blob());
    child.channel().send(bytes_of(memory.address()));
    child.channel().send(memory.handle.bytes());
    ASSERT_TRUE(pump([&] { return child.channel().ready(); }, own));
    EXPECT_TRUE(child.channel().expect("put"));
    EXPECT_EQ(std::memcmp(memory.bytes.data(), pattern(kSize, 1).data(), kSize), 0);
  }
  EXPECT_EQ(child.wait(), 0);
}

TEST(SmShared, AnAnswerThatNobodyAskedForEndsTheConversationAndAStrangeQuestionIsRefused) {
  Side victim{"sm"};
  {
    RawPeer peer{victim};
    Hello question = peer.local.plain(HelloKind::ask_pool, victim.id());
    question.pool = 4711;
    ASSERT_TRUE(send_hello(peer.socket.get(), question));
    const auto answer = receive_hello(peer.socket.get(), Deadline::after(std::chrono::seconds{20}));
    ASSERT_TRUE(answer) << to_string(answer.error());
    EXPECT_EQ(answer->hello.kind, HelloKind::pool);
    EXPECT_EQ(answer->hello.pool, 4711U);
    EXPECT_FALSE(answer->file) << "there is no such pool";
    EXPECT_FALSE(peer.there->dead());
  }
  ASSERT_TRUE(pump([&] { return victim.failures.size() == 1; }, victim));
  RawPeer peer{victim};
  ASSERT_TRUE(send_hello(peer.socket.get(), peer.local.plain(HelloKind::pool, victim.id())));
  ASSERT_TRUE(pump([&] { return victim.failures.size() == 2; }, victim));
}

}  // namespace
}  // namespace opal::btl::sm
