// SPDX-License-Identifier: Apache-2.0
// Ten thousand times: allocate, send, receive by a mapping, free.  The receiver always reads the memory that is meant,
// keeps no more than it may, and in the end nothing is open.
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <memory>
#include <random>
#include <vector>

#include "opal/gpu/copies/copier.hpp"
#include "opal/gpu/sharing/remote_memory.hpp"
#include "opal/rcache/rgpusm.hpp"
#include "tests/gpu/program.hpp"

namespace opal::gpu::test {
namespace {

using opal::test::Channel;

constexpr int kCycles = 10'000;
constexpr std::size_t kLive = 8;  // buffers at a time: about as many mappings make sense
constexpr std::size_t kPiece = 64;

struct Message {
  MemoryHandle handle;
  std::uint64_t offset;
  std::uint32_t seed;
  bool last;
};

void owner(const Channel& other) {
  const CudaProgram program;
  std::mt19937_64 random{1};
  std::vector<std::unique_ptr<DeviceBuffer>> live(kLive);
  for (int i = 0; i < kCycles; ++i) {
    auto& buffer = live[random() % kLive];
    buffer.reset();  // its address may be given out again at once
    buffer = std::make_unique<DeviceBuffer>(kPiece + random() % (128 << 10));
    const std::uint64_t offset = random() % (buffer->size() - kPiece + 1);
    const auto seed = static_cast<std::uint32_t>(i);
    buffer->write(pattern(kPiece, seed), offset);
    const auto handle = export_memory(*inspect(buffer->at(offset)));
    ASSERT_TRUE(handle) << to_string(handle.error());
    send(other, Message{*handle, offset, seed, i + 1 == kCycles});
    ASSERT_TRUE(other.expect("read"));
  }
}

std::ptrdiff_t descriptors() {
  return std::distance(std::filesystem::directory_iterator{"/proc/self/fd"}, std::filesystem::directory_iterator{});
}

void read_with(const Channel& other, const rcache::Config& config, bool refusing, std::uint64_t most_open) {
  const CudaProgram program;
  Control* const control = cuda_double::control();
  if (control != nullptr) control->set(Setting::already_mapped, refusing ? 1 : 0);
  const DeviceBuffer to{kPiece};
  const std::ptrdiff_t descriptors_before = descriptors();
  {
    Copier copier{{}};
    rcache::Rgpusm cache{program.context, config};
    for (bool last = false; !last;) {
      const auto message = receive<Message>(other);
      last = message.last;
      auto memory = cache.get(message.handle);
      ASSERT_TRUE(memory) << to_string(memory.error());
      ASSERT_TRUE(copier.copy(program.context, 0, to.at(), pointer(*memory->at(message.offset, kPiece)), kPiece,
                              {[](void*, const Result<void>& result) noexcept { EXPECT_TRUE(result); }, nullptr}));
      while (copier.pending() > 0) copier.progress();
      ASSERT_EQ(to.read(), pattern(kPiece, message.seed)) << "memory of another allocation";
      other.send("read");
      if (control != nullptr) {
        *memory = {};
        ASSERT_LE(control->count(Count::opened), most_open);
      }
    }
    EXPECT_EQ(cache.statistics().hits, 0u) << "no allocation was sent twice";
  }
  if (control != nullptr) {
    EXPECT_EQ(control->count(Count::opened), 0u);
  }
  EXPECT_EQ(descriptors(), descriptors_before);
}

// Without a limit only what is overlapped goes: with addresses used again at once that is nearly all.
TEST(GpuCycles, TenThousandBuffersKeptForLaterLeaveNothingOpen) {
  in_two_processes(owner, [](const Channel& other) { read_with(other, {}, false, 1'000); });
}

TEST(GpuCycles, TenThousandBuffersOnADriverThatRefusesToMapTwice) {
  in_two_processes(owner, [](const Channel& other) { read_with(other, {}, true, 1'000); });
}

TEST(GpuCycles, TenThousandBuffersWithinALimit) {
  in_two_processes(owner, [](const Channel& other) { read_with(other, {.count_limit = 4}, false, 4); });
}

TEST(GpuCycles, TenThousandBuffersNeverKept) {
  in_two_processes(owner, [](const Channel& other) { read_with(other, {.leave_pinned = false}, false, 0); });
}

}  // namespace
}  // namespace opal::gpu::test
