// SPDX-License-Identifier: Apache-2.0
// Puts, gets and atomics through a live handle whose memory has been unmapped or protected by its owner: an error of
// that operation.  The owner lives on, the connection stands, other operations go on.
#include <sys/mman.h>

#include <cstring>

#include "tests/conformance/side.hpp"

namespace opal::btl {
namespace {

using test::CountedCompletion;
using test::kTag;
using test::pattern;
using test::pump;
using test::Side;

struct Path {
  const char* name;
  const char* transport;
  const char* large_get;
  const char* single_copy;
};
constexpr Path kPaths[] = {{"sm", "sm", "auto", "shared,xpmem,cma,knem"},  {"sm_alone", "sm", "alone", "cma"},
                           {"sm_cooperative", "sm", "cooperative", "cma"}, {"sm_pipelined", "sm", "pipelined", "cma"},
                           {"sm_no_single_copy", "sm", "auto", "none"},    {"tcp", "tcp", "auto", "none"}};

config::Store store_of(const Path& path) {
  config::Store store;
  store.set("btl_sm_large_get", path.large_get);
  store.set("btl_sm_single_copy", path.single_copy);
  return store;
}

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

enum class Fate : std::uint8_t { unmapped, no_access, read_only };

class UnreachableMemory : public testing::TestWithParam<Path> {
 protected:
  static constexpr std::size_t kMapped = 8 << 20;
  static constexpr std::size_t kSizes[] = {8, 3000, 64 << 10, 300'001, kMapped};

  UnreachableMemory() {
    there_ = a_.connect(b_);
    good_.resize(100'000);
    good_handle_ = *b_.module().register_memory(good_.data(), good_.size(), Rights::all);
    fill_buffers();
  }

  /// Lets the transports make all their buffers: one that is made later may be mapped where a test has unmapped memory.
  void fill_buffers() {
    std::vector<std::byte> there(kMapped);
    const MemoryHandle handle = *b_.module().register_memory(there.data(), there.size(), Rights::all);
    auto here = pattern(kMapped, 1);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(put(here.data(), address_of(there.data()), handle, kMapped).code, Errc{});
      EXPECT_EQ(get(here.data(), address_of(there.data()), handle, kMapped).code, Errc{});
    }
    EXPECT_TRUE(b_.module().deregister_memory(handle));
  }

  Error finish(const std::function<Post(Completion&)>& post) {
    CountedCompletion completion;
    Post answer = Post::again;
    EXPECT_TRUE(pump([&] { return (answer = post(completion)) != Post::again; }, a_, b_));
    EXPECT_TRUE(pump([&] { return answer != Post::queued || completion.calls == 1; }, a_, b_));
    return completion.error;
  }
  Error get(std::byte* into, std::uint64_t from, const MemoryHandle& handle, std::size_t size) {
    return finish([&](Completion& completion) {
      return a_.module().get(*there_, into, nullptr, from, handle, size, completion);
    });
  }
  Error put(const std::byte* from, std::uint64_t into, const MemoryHandle& handle, std::size_t size) {
    return finish([&](Completion& completion) {
      return a_.module().put(*there_, from, nullptr, into, handle, size, completion);
    });
  }
  Error increment(std::uint64_t address, const MemoryHandle& handle) {
    AtomicRequest request{};
    request.remote = &handle;
    request.remote_address = address;
    request.op = AtomicOp::add;
    request.type = AtomicType::u64;
    request.operand = 1;
    return finish([&](Completion& completion) { return a_.module().atomic(*there_, request, completion); });
  }

  /// The last part of a mapping of its own changes; what a peer does there is refused.
  void expect_refusals(Fate fate) {
    for (const std::size_t size : kSizes) {
      SCOPED_TRACE(size);
      auto* const memory =
          static_cast<std::byte*>(::mmap(nullptr, kMapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
      ASSERT_NE(memory, MAP_FAILED);
      std::memset(memory, 5, kMapped);
      const MemoryHandle handle = *b_.module().register_memory(memory, kMapped, Rights::all);
      const std::uint64_t first = address_of(memory) + kMapped - size;
      const std::size_t lost = std::min<std::size_t>(kMapped / 4, align_up(size / 2, 4096));
      std::byte* const lost_at = memory + kMapped - lost;
      const int changed = fate == Fate::unmapped
                              ? ::munmap(lost_at, lost)
                              : ::mprotect(lost_at, lost, fate == Fate::no_access ? PROT_NONE : PROT_READ);
      ASSERT_EQ(changed, 0);
      auto own = pattern(size, 7);
      for (int i = 0; i < 3; ++i) {
        const Error of_get = get(own.data(), first, handle, size);
        EXPECT_EQ(of_get.code, fate == Fate::read_only ? Errc{} : Errc::invalid_argument) << to_string(of_get);
        const Error of_put = put(own.data(), first, handle, size);
        EXPECT_EQ(of_put.code, Errc::invalid_argument) << to_string(of_put);
        expect_traffic();
      }
      EXPECT_EQ(increment(address_of(lost_at), handle).code, Errc::invalid_argument);
      EXPECT_EQ(increment(address_of(memory), handle).code, Errc{});
      ASSERT_TRUE(b_.module().deregister_memory(handle));
      ::munmap(memory, fate == Fate::unmapped ? kMapped - lost : kMapped);
    }
    EXPECT_FALSE(there_->dead());
    EXPECT_TRUE(a_.failures.empty());
    EXPECT_TRUE(b_.failures.empty());
  }
  void expect_traffic() {
    const auto bytes = pattern(good_.size(), ++seed_);
    ASSERT_EQ(put(bytes.data(), address_of(good_.data()), good_handle_, bytes.size()).code, Errc{});
    std::vector<std::byte> back(bytes.size());
    ASSERT_EQ(get(back.data(), address_of(good_.data()), good_handle_, bytes.size()).code, Errc{});
    ASSERT_EQ(back, bytes);
    const std::size_t before = b_.received.size();
    ASSERT_EQ(test::send(*there_, pattern(100, seed_), {}, a_, b_), Post::done);
    ASSERT_TRUE(pump([&] { return b_.received.size() == before + 1; }, a_, b_));
  }

  Side a_{GetParam().transport, store_of(GetParam())};
  Side b_{GetParam().transport, store_of(GetParam())};
  Endpoint* there_;
  std::vector<std::byte> good_;
  MemoryHandle good_handle_;
  std::uint32_t seed_ = 0;
};

TEST_P(UnreachableMemory, ThatIsUnmappedRefusesTheOperationAlone) { expect_refusals(Fate::unmapped); }
TEST_P(UnreachableMemory, ThatAllowsNoAccessRefusesTheOperationAlone) { expect_refusals(Fate::no_access); }
TEST_P(UnreachableMemory, ThatIsReadOnlyRefusesWritingAlone) { expect_refusals(Fate::read_only); }

/// What a get has sent before it meets the hole is not taken for the whole.
TEST_P(UnreachableMemory, InTheFirstPageOnlyIsNoticedToo) {
  auto* const memory =
      static_cast<std::byte*>(::mmap(nullptr, kMapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  const MemoryHandle handle = *b_.module().register_memory(memory, kMapped, Rights::all);
  std::vector<std::byte> own(kMapped);
  for (const std::size_t lost_at : {std::size_t{0}, kMapped / 2, kMapped - 4096}) {
    ASSERT_EQ(::mprotect(memory + lost_at, 4096, PROT_NONE), 0);
    EXPECT_EQ(get(own.data(), address_of(memory), handle, kMapped).code, Errc::invalid_argument) << lost_at;
    EXPECT_EQ(put(own.data(), address_of(memory), handle, kMapped).code, Errc::invalid_argument) << lost_at;
    expect_traffic();
    ASSERT_EQ(::mprotect(memory + lost_at, 4096, PROT_READ | PROT_WRITE), 0);
    EXPECT_EQ(get(own.data(), address_of(memory), handle, kMapped).code, Errc{}) << "it is there again";
  }
  ::munmap(memory, kMapped);
}

INSTANTIATE_TEST_SUITE_P(Over, UnreachableMemory, testing::ValuesIn(kPaths),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace opal::btl
