// SPDX-License-Identifier: Apache-2.0
// No heap on the way of an 8-byte message: from send_inline through progress to the handler.  Replaces malloc of this
// whole program, so that C libraries are seen too.
#include <cstdlib>

#include "tests/am/pair.hpp"

namespace {

std::atomic<bool> counting{false};
std::atomic<std::size_t> allocations{0};

void count() noexcept {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

// glibc's own names for what we replace.
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);

void* malloc(std::size_t size) {
  count();
  return __libc_malloc(size);
}
void* calloc(std::size_t n, std::size_t size) {
  count();
  return __libc_calloc(n, size);
}
void* realloc(void* memory, std::size_t size) {
  count();
  return __libc_realloc(memory, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  count();
  return __libc_memalign(alignment, size);
}
}

namespace opal::test {
namespace {

class SendAllocation : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Over, SendAllocation, ::testing::ValuesIn(joining_transports()),
                         [](const auto& info) { return info.param; });

TEST_P(SendAllocation, TheCounterSeesWhatAllocates) {
  counting = true;
  allocations = 0;
  delete new int{1};
  std::free(std::calloc(1, 8));
  counting = false;
  EXPECT_GE(allocations, 1u);  // the compiler may leave one pair out
}

TEST_P(SendAllocation, AnEightByteMessageAllocatesNothingOnEitherSide) {
  Side a{GetParam()};
  Side b{GetParam()};
  am::Endpoint* to_b = *a.context->connect(b.context->address());
  const std::uint64_t word = 1;
  // Connections, fast boxes and pools are made by the first messages.
  ASSERT_TRUE(pump(
      [&] {
        (void)to_b->send_inline(kTag, bytes_of(word), {});
        return b.messages > 500;
      },
      *a.context, *b.context));

  counting = true;
  allocations = 0;
  std::size_t sent = 0;
  const std::size_t before = b.messages;
  while (sent < 10'000) {
    if (to_b->send_inline(kTag, bytes_of(word), {}) == Post::done) ++sent;
    a.context->progress();
    b.context->progress();
  }
  const bool arrived = pump([&] { return b.messages >= before + sent; }, *a.context, *b.context);
  counting = false;
  EXPECT_TRUE(arrived);
  // The Portals 4 double allocates when a receive buffer is posted again, every 4096 messages.
  EXPECT_LE(allocations, GetParam() == "portals4" ? sent / 100 : 0);
}

TEST_P(SendAllocation, AnEightBytePutAllocatesNothingOnEitherSide) {
  Side a{GetParam()};
  Side b{GetParam()};
  am::Endpoint* to_b = *a.context->connect(b.context->address());
  std::uint64_t memory = 0;
  auto region = b.context->register_memory(&memory, sizeof memory, Rights::all);
  ASSERT_TRUE(region);
  const MemoryHandle key = *to_b->unpack_key(region->key());
  const auto put = [&](Completion& end) {
    static const std::uint64_t value = 2;
    return to_b->put(&value, reinterpret_cast<std::uint64_t>(&memory), key, sizeof memory, end);
  };
  for (int i = 0; i < 500; ++i) ASSERT_EQ(finish(put, *a.context, *b.context).code, Errc{});
  counting = true;
  allocations = 0;
  bool good = true;
  for (int i = 0; i < 2000; ++i) good = finish(put, *a.context, *b.context).code == Errc{} && good;
  counting = false;
  EXPECT_TRUE(good);
  EXPECT_EQ(allocations, 0u);
}

}  // namespace
}  // namespace opal::test
