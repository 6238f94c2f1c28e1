// SPDX-License-Identifier: Apache-2.0
// Put, get, atomics and flush over every transport: any part of a region, nothing outside it, nothing stale.
#include <fcntl.h>
#include <sys/mman.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "opal/core/sanitizer.hpp"
#include "opal/core/system/fd.hpp"
#include "opal/core/system/mapping.hpp"
#include "tests/conformance/side.hpp"

namespace opal::test {
namespace {

class Rdma : public Conformance {
 protected:
  /// Registers at b; removed with the test.
  MemoryHandle expose(void* base, std::uint64_t size, Rights rights = Rights::all) {
    auto handle = b().module().register_memory(base, size, rights);
    EXPECT_TRUE(handle);
    return *handle;
  }
  Error put(const void* source, std::uint64_t remote, const MemoryHandle& handle, std::uint64_t size) {
    return finish([&](Completion& completion) {
      return a().module().put(to_b(), source, nullptr, remote, handle, size, completion);
    });
  }
  Error get(void* destination, std::uint64_t remote, const MemoryHandle& handle, std::uint64_t size) {
    return finish([&](Completion& completion) {
      return a().module().get(to_b(), destination, nullptr, remote, handle, size, completion);
    });
  }
  Error atomic(AtomicRequest request) {
    return finish([&](Completion& completion) { return a().module().atomic(to_b(), request, completion); });
  }
};
OPAL_CONFORMANCE_SUITE(Rdma, usable_transports);

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

constexpr Errc kOk{};

TEST_P(Rdma, PutAndGetReachAnyPartOfTheRegion) {
  constexpr std::size_t kSize = 300'000;
  std::vector<std::byte> region(kSize);
  const MemoryHandle handle = expose(region.data(), kSize);
  std::vector<std::byte> mirror(kSize);
  std::uint32_t random = 12345;
  for (int i = 0; i < 200; ++i) {
    random = random * 1664525U + 1013904223U;
    const std::size_t offset = random % kSize;
    random = random * 1664525U + 1013904223U;
    const std::size_t size = std::min<std::size_t>(kSize - offset, random % (i % 10 == 0 ? kSize : 5000));
    const auto bytes = pattern(size, static_cast<std::uint32_t>(i));
    ASSERT_EQ(put(bytes.data(), address_of(region.data()) + offset, handle, size).code, kOk);
    std::copy(bytes.begin(), bytes.end(), mirror.begin() + static_cast<std::ptrdiff_t>(offset));
    ASSERT_EQ(region, mirror) << "a completed put is visible at the target";
    std::vector<std::byte> back(size);
    ASSERT_EQ(get(back.data(), address_of(region.data()) + offset, handle, size).code, kOk);
    ASSERT_EQ(back, bytes);
  }
}

TEST_P(Rdma, TheFirstAndTheLastByteAreInside) {
  auto region = pattern(4096, 1);
  const MemoryHandle handle = expose(region.data(), region.size());
  const std::byte mark{0x5a};
  EXPECT_EQ(put(&mark, address_of(region.data()), handle, 1).code, kOk);
  EXPECT_EQ(put(&mark, address_of(region.data()) + region.size() - 1, handle, 1).code, kOk);
  EXPECT_EQ(region.front(), mark);
  EXPECT_EQ(region.back(), mark);
  EXPECT_EQ(put(&mark, address_of(region.data()) + region.size(), handle, 0).code, kOk) << "an empty range at the end";
}

TEST_P(Rdma, OneByteOutsideEitherEndIsRefusedAndNothingIsWritten) {
  constexpr std::size_t kGuard = 64;
  constexpr std::size_t kInner = 100'000;
  std::vector<std::byte> memory(kInner + 2 * kGuard, std::byte{0x11});
  const auto before = memory;
  const std::uint64_t base = address_of(memory.data()) + kGuard;
  const MemoryHandle handle = expose(memory.data() + kGuard, kInner);
  const auto bytes = pattern(kInner + 1, 3);
  std::vector<std::byte> sink(kInner + 1, std::byte{0x22});
  const auto sink_before = sink;
  const std::pair<std::uint64_t, std::uint64_t> outside[] = {
      {base - 1, 1},
      {base + kInner, 1},
      {base - 1, kInner + 1},
      {base, kInner + 1},
      {base + 1, kInner},
      {base - 1, 10},
      {0, 8},
      {base, std::numeric_limits<std::uint64_t>::max()},
      {base + 8, std::numeric_limits<std::uint64_t>::max() - 4},
      {std::numeric_limits<std::uint64_t>::max() - 3, 8},
  };
  for (const auto& [address, size] : outside) {
    EXPECT_EQ(put(bytes.data(), address, handle, size).code, Errc::invalid_argument) << size;
    EXPECT_EQ(memory, before);
    EXPECT_EQ(get(sink.data(), address, handle, size).code, Errc::invalid_argument) << size;
    EXPECT_EQ(sink, sink_before);
  }
  EXPECT_FALSE(to_b().dead());
  EXPECT_EQ(put(bytes.data(), base, handle, kInner).code, kOk) << "other operations go on";
  EXPECT_EQ(std::memcmp(memory.data() + kGuard, bytes.data(), kInner), 0);
}

TEST_P(Rdma, AStaleHandleIsRefusedAlsoWhenTheMemoryIsRegisteredAgain) {
  std::vector<std::byte> memory(8192, std::byte{1});
  const auto before = memory;
  const MemoryHandle stale = expose(memory.data(), memory.size());
  ASSERT_TRUE(b().module().deregister_memory(stale));
  EXPECT_FALSE(b().module().deregister_memory(stale)) << "twice is an error";
  const auto bytes = pattern(8192, 4);
  EXPECT_EQ(put(bytes.data(), address_of(memory.data()), stale, 8192).code, Errc::invalid_argument);
  for (int i = 0; i < 3000; ++i) {  // more than there are slots: the stale one's is used again
    const MemoryHandle fresh = expose(memory.data(), memory.size());
    ASSERT_TRUE(b().module().deregister_memory(fresh));
  }
  const MemoryHandle fresh = expose(memory.data(), memory.size());
  EXPECT_EQ(put(bytes.data(), address_of(memory.data()), stale, 8192).code, Errc::invalid_argument);
  EXPECT_EQ(memory, before);
  EXPECT_EQ(put(bytes.data(), address_of(memory.data()), fresh, 8192).code, kOk);
  EXPECT_EQ(memory, bytes);
}

TEST_P(Rdma, InvalidatedMemoryIsRefusedFromTheNextProgressOn) {
  std::vector<std::byte> memory(8192, std::byte{1});
  const auto before = memory;
  const auto bytes = pattern(8192, 4);
  const MemoryHandle handle = expose(memory.data(), memory.size());
  b().module().invalidate_memory(handle);
  b().module().progress(64);
  EXPECT_NE(put(bytes.data(), address_of(memory.data()), handle, 8192).code, kOk);
  EXPECT_EQ(memory, before);
  EXPECT_FALSE(to_b().dead()) << "one operation fails, not the connection";
  EXPECT_TRUE(b().module().deregister_memory(handle)) << "the handle stays live until then";
  const MemoryHandle fresh = expose(memory.data(), memory.size());
  EXPECT_EQ(put(bytes.data(), address_of(memory.data()), fresh, 8192).code, kOk);
}

TEST_P(Rdma, AnInvalidatedPartLeavesTheRestValid) {
  constexpr std::size_t kPage = 4096;
  auto memory = Mapping::anonymous(4 * kPage, false);
  ASSERT_TRUE(memory);
  const std::uint64_t base = address_of(memory->data());
  const MemoryHandle handle = expose(memory->data(), 4 * kPage);
  b().module().invalidate_memory_part(handle, {base + kPage, base + 2 * kPage});
  b().module().progress(64);
  const auto bytes = pattern(kPage, 4);
  EXPECT_EQ(put(bytes.data(), base, handle, kPage).code, kOk);
  EXPECT_EQ(put(bytes.data(), base + 2 * kPage, handle, kPage).code, kOk);
  EXPECT_EQ(std::memcmp(memory->data() + 2 * kPage, bytes.data(), kPage), 0);
  if (!b().module().attributes().own_handles) {  // a device may use the old pages until deregister_memory()
    EXPECT_NE(put(bytes.data(), base + kPage, handle, kPage).code, kOk);
    EXPECT_NE(put(bytes.data(), base + kPage / 2, handle, kPage).code, kOk) << "it reaches into the part";
    EXPECT_EQ(memory->data()[kPage], std::byte{0});
  }
  EXPECT_TRUE(b().module().deregister_memory(handle));
}

TEST_P(Rdma, ARightThatWasNotGivenIsRefused) {
  alignas(8) std::uint64_t word = 42;
  std::uint64_t other = 7;
  const MemoryHandle read_only = expose(&word, sizeof word, Rights::remote_read);
  EXPECT_EQ(put(&other, address_of(&word), read_only, sizeof word).code, Errc::permission);
  EXPECT_EQ(atomic({AtomicOp::add, AtomicType::u64, address_of(&word), &read_only, 1}).code, Errc::permission);
  EXPECT_EQ(word, 42U);
  EXPECT_EQ(get(&other, address_of(&word), read_only, sizeof word).code, kOk);
  EXPECT_EQ(other, 42U);
  const MemoryHandle write_only = expose(&word, sizeof word, Rights::remote_write);
  EXPECT_EQ(get(&other, address_of(&word), write_only, sizeof word).code, Errc::permission);
}

TEST_P(Rdma, GarbledHandlesAreRefused) {
  std::vector<std::byte> memory(4096, std::byte{1});
  const auto before = memory;
  const MemoryHandle good = expose(memory.data(), memory.size());
  const auto bytes = pattern(4096, 4);
  for (std::size_t size : {std::size_t{0}, std::size_t{1}, good.bytes().size() - 1, MemoryHandle::kMaxSize}) {
    const auto bad = MemoryHandle::from_bytes(pattern(size, 77));
    ASSERT_TRUE(bad);
    EXPECT_NE(put(bytes.data(), address_of(memory.data()), *bad, 4096).code, kOk) << size;
  }
  std::vector<std::byte> flipped(good.bytes().begin(), good.bytes().end());
  flipped[0] ^= std::byte{2};
  EXPECT_NE(put(bytes.data(), address_of(memory.data()), *MemoryHandle::from_bytes(flipped), 4096).code, kOk);
  EXPECT_EQ(memory, before);
  EXPECT_FALSE(to_b().dead());
}

TEST_P(Rdma, OffsetsBeyondFourGigabytesReachTheRightPlace) {
  // Sparse: only the pages that are touched exist.
  constexpr std::uint64_t kSize = 9ULL << 30;
  auto sparse = Mapping::anonymous(kSize, false);
  ASSERT_TRUE(sparse);
  const MemoryHandle handle = expose(sparse->data(), kSize);
  const std::uint64_t offsets[] = {(4ULL << 30) - 50, (4ULL << 30) + 7, (8ULL << 30) + 12345, kSize - 100};
  for (const std::uint64_t offset : offsets) {
    const auto bytes = pattern(100, static_cast<std::uint32_t>(offset));
    ASSERT_EQ(put(bytes.data(), address_of(sparse->data()) + offset, handle, 100).code, kOk);
    EXPECT_EQ(std::memcmp(sparse->data() + offset, bytes.data(), 100), 0) << offset;
    std::vector<std::byte> back(100);
    ASSERT_EQ(get(back.data(), address_of(sparse->data()) + offset, handle, 100).code, kOk);
    EXPECT_EQ(back, bytes);
  }
  std::byte mark{1};
  EXPECT_EQ(put(&mark, address_of(sparse->data()) + kSize, handle, 1).code, Errc::invalid_argument);
}

TEST_P(Rdma, OnePutLargerThanFourGigabytesMovesEveryPiece) {
#if OPAL_THREAD_SANITIZER
  GTEST_SKIP() << "needs a build without ThreadSanitizer, whose notes on 8 GiB of addresses are 20 GiB of memory";
#endif
  // 4 GiB + 1 MiB over one 2 MiB file mapped again and again: long in address space, small in memory.
  constexpr std::uint64_t kPiece = 2ULL << 20;
  constexpr std::uint64_t kSize = (4ULL << 30) + (1ULL << 20);
  const Fd file{::memfd_create("conformance", MFD_CLOEXEC)};
  ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(kPiece)), 0);
  auto target = Mapping::anonymous(kSize + kPiece, false);
  ASSERT_TRUE(target);
  // The end has memory of its own: what it holds afterwards must not depend on the order in which a copy walks.
  // Populated: two million page faults take a minute on some machines.
  constexpr int kFlags = MAP_SHARED | MAP_FIXED | MAP_POPULATE;
  for (std::uint64_t at = 0; at + kPiece < kSize; at += kPiece) {
    void* mapped = ::mmap(target->data() + at, kPiece, PROT_READ | PROT_WRITE, kFlags, file.get(), 0);
    ASSERT_NE(mapped, MAP_FAILED);
  }
  auto source = Mapping::anonymous(kSize, false);  // reads as zero pages, large ones if the kernel has them
  ASSERT_TRUE(source);
  (void)::madvise(source->data(), kSize, MADV_HUGEPAGE);
  const auto tail = pattern(1 << 20, 5);
  std::memcpy(source->data() + kSize - tail.size(), tail.data(), tail.size());
  const MemoryHandle handle = expose(target->data(), kSize);
  ASSERT_EQ(put(source->data(), address_of(target->data()), handle, kSize).code, kOk);
  EXPECT_EQ(std::memcmp(target->data() + kSize - tail.size(), tail.data(), tail.size()), 0);
}

TEST_P(Rdma, ManyOperationsInFlightEachCompleteOnce) {
  constexpr std::size_t kCount = 300;
  constexpr std::size_t kEach = 5000;
  std::vector<std::byte> region(kCount * kEach);
  const MemoryHandle handle = expose(region.data(), region.size());
  std::vector<std::vector<std::byte>> sources;
  for (std::size_t i = 0; i < kCount; ++i) sources.push_back(pattern(kEach, static_cast<std::uint32_t>(i)));
  std::vector<CountedCompletion> completions(kCount);
  std::vector<Post> posts(kCount, Post::again);
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_TRUE(pump_both([&] {
      posts[i] = a().module().put(to_b(), sources[i].data(), nullptr, address_of(region.data()) + i * kEach, handle,
                                  kEach, completions[i]);
      return posts[i] != Post::again;
    }));
    ASSERT_NE(posts[i], Post::failed);
  }
  CountedCompletion flushed;
  Post flush = Post::again;
  ASSERT_TRUE(pump_both([&] { return (flush = a().module().flush(&to_b(), flushed)) != Post::again; }));
  if (flush == Post::queued) {
    ASSERT_TRUE(pump_both([&] { return flushed.calls == 1; }));
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(std::memcmp(region.data() + i * kEach, sources[i].data(), kEach), 0) << "flush means visible";
  }
  ASSERT_TRUE(pump_both([&] {
    for (std::size_t i = 0; i < kCount; ++i) {
      if (posts[i] == Post::queued && completions[i].calls == 0) return false;
    }
    return true;
  }));
  for (std::size_t i = 0; i < kCount; ++i) EXPECT_EQ(completions[i].calls, posts[i] == Post::queued ? 1 : 0);
}

template <class T>
std::uint64_t bits(T value) {
  if constexpr (sizeof(T) == 4)
    return std::bit_cast<std::uint32_t>(value);
  else
    return std::bit_cast<std::uint64_t>(value);
}

template <class T>
T reference(AtomicOp op, T old, T operand, T compare) {
  switch (op) {
    case AtomicOp::add: return static_cast<T>(old + operand);
    case AtomicOp::swap: return operand;
    case AtomicOp::min: return std::min(old, operand);
    case AtomicOp::max: return std::max(old, operand);
    case AtomicOp::compare_swap: return old == compare ? operand : old;
    default: break;
  }
  if constexpr (std::is_integral_v<T>) {
    if (op == AtomicOp::bit_and) return old & operand;
    if (op == AtomicOp::bit_or) return old | operand;
    if (op == AtomicOp::bit_xor) return old ^ operand;
  }
  return old;
}

TEST_P(Rdma, EveryAtomicOfEveryTypeDoesWhatItsNameSays) {
  auto check = [&]<class T>(AtomicType type, T old, T operand) {
    for (int i = 0; i <= static_cast<int>(AtomicOp::compare_swap); ++i) {
      const auto op = static_cast<AtomicOp>(i);
      for (const T compare : {old, operand}) {
        alignas(8) T memory[4] = {old, old, old, old};
        const MemoryHandle handle = expose(memory, sizeof memory);
        std::uint64_t result = 0xdeadbeef;
        const AtomicRequest request{op, type, address_of(&memory[1]), &handle, bits(operand), bits(compare), &result};
        const Error error = atomic(request);
        if (!is_supported(op, type)) {
          EXPECT_EQ(error.code, Errc::not_supported);
          EXPECT_EQ(bits(memory[1]), bits(old));
        } else {
          EXPECT_EQ(error.code, kOk);
          EXPECT_EQ(bits(memory[1]), bits(reference(op, old, operand, compare))) << i;
          EXPECT_EQ(result, bits(old)) << i;
        }
        EXPECT_EQ(bits(memory[0]), bits(old));
        EXPECT_EQ(bits(memory[2]), bits(old));
        EXPECT_TRUE(b().module().deregister_memory(handle));
      }
    }
  };
  check(AtomicType::i32, std::int32_t{-5}, std::int32_t{3});
  check(AtomicType::u32, std::uint32_t{0xfffffff0U}, std::uint32_t{0x20});
  check(AtomicType::i64, std::int64_t{-5'000'000'000}, std::int64_t{7});
  check(AtomicType::u64, ~std::uint64_t{0}, std::uint64_t{2});
  check(AtomicType::f32, 1.5F, -2.25F);
  check(AtomicType::f64, 1.5e100, 2.5e100);
}

TEST_P(Rdma, AMisalignedAtomicIsRefused) {
  alignas(8) std::byte memory[32] = {};
  const MemoryHandle handle = expose(memory, sizeof memory);
  EXPECT_EQ(atomic({AtomicOp::add, AtomicType::u64, address_of(memory) + 4, &handle, 1}).code, Errc::invalid_argument);
  EXPECT_EQ(atomic({AtomicOp::add, AtomicType::u32, address_of(memory) + 2, &handle, 1}).code, Errc::invalid_argument);
  for (const std::byte byte : memory) EXPECT_EQ(byte, std::byte{0});
}

TEST_P(Rdma, AtomicsFromSeveralSidesAddUp) {
  alignas(8) std::uint64_t counter = 0;
  const MemoryHandle handle = expose(&counter, sizeof counter);
  constexpr int kEach = 500;
  constexpr int kSides = 4;
  std::vector<std::unique_ptr<Side>> others;
  std::vector<std::pair<Side*, btl::Endpoint*>> initiators{{&a(), &to_b()}};
  for (int i = 1; i < kSides && !alone(); ++i) {
    others.push_back(std::make_unique<Side>(GetParam()));
    initiators.emplace_back(others.back().get(), others.back()->connect(b()));
  }
  std::vector<CountedCompletion> completions(initiators.size() * kEach);
  std::vector<int> posted(initiators.size());
  std::size_t immediate = 0;
  const AtomicRequest request{AtomicOp::add, AtomicType::u64, address_of(&counter), &handle, 1};
  ASSERT_TRUE(pump_both([&] {
    std::size_t called = immediate;
    for (std::size_t i = 0; i < initiators.size(); ++i) {
      initiators[i].first->module().progress(16);
      if (posted[i] < kEach) {
        const Post post = initiators[i].first->module().atomic(
            *initiators[i].second, request, completions[i * kEach + static_cast<std::size_t>(posted[i])]);
        if (post == Post::done) ++immediate, ++called;
        if (post != Post::again) ++posted[i];
      }
    }
    for (const CountedCompletion& completion : completions) called += static_cast<std::size_t>(completion.calls);
    return called == completions.size();
  }));
  EXPECT_EQ(counter, completions.size());
}

/// Posts its put again when it completes, and calls progress() inside.
struct Chain final : Completion {
  Chain() {
    fn = [](Completion& self) noexcept { static_cast<Chain&>(self).step(); };
  }
  void step() noexcept {
    nested += module->progress(64);
    post = --left > 0 ? again(*this) : Post::done;
  }
  btl::Module* module = nullptr;
  std::function<Post(Completion&)> again;
  int left = 50;
  Post post = Post::done;
  std::size_t nested = 0;
};

TEST_P(Rdma, ACompletionMayPostAndProgressInsideItDoesNothing) {
  std::vector<std::byte> region(100'000);
  const MemoryHandle handle = expose(region.data(), region.size());
  const auto bytes = pattern(region.size(), 6);
  Chain chain;
  chain.module = &a().module();
  chain.again = [&](Completion& completion) {
    return a().module().put(to_b(), bytes.data(), nullptr, address_of(region.data()), handle, bytes.size(), completion);
  };
  chain.post = Post::again;
  ASSERT_TRUE(pump_both([&] {
    while (chain.left > 0 && chain.post != Post::queued) {
      if ((chain.post = chain.again(chain)) == Post::again) break;
      if (chain.post == Post::done) --chain.left;
      if (chain.post == Post::failed) return true;
    }
    return chain.left <= 0;
  }));
  ASSERT_NE(chain.post, Post::failed);
  EXPECT_EQ(chain.nested, 0U);
  EXPECT_EQ(region, bytes);
}

TEST_P(Rdma, MessagesFlowWhileALargeTransferRuns) {
  std::vector<std::byte> region(8 << 20);
  const MemoryHandle handle = expose(region.data(), region.size());
  const auto bytes = pattern(region.size(), 6);
  CountedCompletion completion;
  Post post = Post::again;
  ASSERT_TRUE(pump_both([&] {
    post = a().module().put(to_b(), bytes.data(), nullptr, address_of(region.data()), handle, bytes.size(), completion);
    return post != Post::again;
  }));
  ASSERT_NE(post, Post::failed);
  for (std::uint32_t i = 0; i < 100; ++i) ASSERT_EQ(send_to_b(bytes_of(i), {}), Post::done);
  ASSERT_TRUE(pump_both([&] { return b().received.size() == 100 && (post == Post::done || completion.calls == 1); }));
  EXPECT_EQ(region, bytes);
  for (std::uint32_t i = 0; i < 100; ++i) EXPECT_EQ(std::memcmp(b().received[i].data(), &i, sizeof i), 0);
}

}  // namespace
}  // namespace opal::test
