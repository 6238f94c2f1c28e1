// SPDX-License-Identifier: Apache-2.0
// What pointers point to, and what finding that out costs.
#include "opal/gpu/memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "opal/gpu/context.hpp"
#include "opal/gpu/copies/copy.hpp"
#include "tests/gpu/program.hpp"

namespace opal::gpu::test {
namespace {

Memory inspected(const void* address) {
  const auto memory = inspect(address);
  EXPECT_TRUE(memory) << to_string(memory.error());
  return memory ? *memory : Memory{};
}

class GpuMemory : public testing::Test {
 protected:
  CudaProgram program_;
};

TEST_F(GpuMemory, HeapStackAndConstantsAreHostMemory) {
  static const int constant = 1;
  const int on_stack = 2;
  const auto on_heap = std::make_unique<int>(3);
  for (const void* address : {static_cast<const void*>(&constant), static_cast<const void*>(&on_stack),
                              static_cast<const void*>(on_heap.get()), static_cast<const void*>(nullptr)}) {
    EXPECT_TRUE(is_host(address));
    EXPECT_EQ(inspected(address).kind, MemoryKind::host);
  }
}

TEST_F(GpuMemory, ALegacyAllocationIsKnownFromItsFirstByteToItsLast) {
  const DeviceBuffer buffer{1'000};
  for (const std::size_t offset : {0, 1, 999}) {
    const Memory memory = inspected(buffer.at(offset));
    EXPECT_FALSE(is_host(buffer.at(offset)));
    EXPECT_EQ(memory.kind, MemoryKind::legacy);
    EXPECT_EQ(memory.base, buffer.address());
    EXPECT_EQ(memory.device, 0);
    EXPECT_EQ(memory.context, program_.context);
    EXPECT_TRUE(memory.contains(buffer.address(), 1'000));
    EXPECT_NE(memory.buffer_id, 0u);
  }
}

TEST_F(GpuMemory, PinnedAndRegisteredMemoryIsTheHosts) {
  void* pinned = nullptr;
  ASSERT_EQ(cuMemHostAlloc(&pinned, 8192, 0), CUDA_SUCCESS);
  EXPECT_TRUE(is_host(pinned));
  EXPECT_EQ(inspected(pinned).kind, MemoryKind::pinned);
  EXPECT_TRUE(inspected(pinned).on_host());
  ASSERT_EQ(cuMemFreeHost(pinned), CUDA_SUCCESS);

  void* const own = std::aligned_alloc(4096, 8192);
  ASSERT_EQ(cuMemHostRegister(own, 8192, 0), CUDA_SUCCESS);
  EXPECT_TRUE(is_host(own));
  EXPECT_EQ(inspected(own).kind, MemoryKind::pinned);
  ASSERT_EQ(cuMemHostUnregister(own), CUDA_SUCCESS);
  EXPECT_EQ(inspected(own).kind, MemoryKind::host);
  std::free(own);
}

TEST_F(GpuMemory, ManagedMemoryIsCopiedByTheDriver) {
  CUdeviceptr managed = 0;
  ASSERT_EQ(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
  EXPECT_FALSE(is_host(pointer(managed)));
  EXPECT_EQ(inspected(pointer(managed)).kind, MemoryKind::managed);
  ASSERT_EQ(cuMemFree(managed), CUDA_SUCCESS);
}

TEST_F(GpuMemory, AMappingOfTheVirtualMemoryFunctionsIsOneOfThem) {
  const Mapped mapped;
  const Memory memory = inspected(pointer(mapped.address(), 77));
  EXPECT_FALSE(is_host(pointer(mapped.address())));
  EXPECT_EQ(memory.kind, MemoryKind::mapped);
  EXPECT_EQ(memory.context, nullptr);
  EXPECT_TRUE(memory.contains(mapped.address(), mapped.size()));
}

// ucx#11283: buffers over several mappings were taken for one allocation, and were silently wrong.
TEST_F(GpuMemory, ABufferOverTwoMappingsIsNotOneAllocation) {
  const Mapped mapped{2};
  const Memory memory = inspected(pointer(mapped.address()));
  EXPECT_EQ(memory.kind, MemoryKind::mapped);
  EXPECT_FALSE(memory.contains(mapped.address() + Mapped::kPiece - 8, 16));
  EXPECT_NE(memory.buffer_id, inspected(pointer(mapped.address(), Mapped::kPiece)).buffer_id);
}

// libfabric#10162: memory of cuMemAllocAsync was taken for memory that has a handle.
TEST_F(GpuMemory, AStreamOrderedAllocationIsPooled) {
  CUdeviceptr pooled = 0;
  ASSERT_EQ(cuMemAllocAsync(&pooled, 4096, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(nullptr), CUDA_SUCCESS);
  const Memory memory = inspected(pointer(pooled));
  EXPECT_FALSE(is_host(pointer(pooled)));
  EXPECT_EQ(memory.kind, MemoryKind::pooled);
  EXPECT_EQ(memory.device, 0);
  ASSERT_EQ(cuMemFreeAsync(pooled, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(nullptr), CUDA_SUCCESS);
}

TEST_F(GpuMemory, AKindThatTheDriverDoesNotNameIsNotGuessed) {
  Control* const control = cuda_double::control();
  if (control == nullptr) GTEST_SKIP() << kNeedsDouble;
  const DeviceBuffer buffer{4096};
  control->set(Setting::unknown_kind, 1);
  EXPECT_FALSE(is_host(buffer.at()));
  EXPECT_EQ(inspected(buffer.at()).kind, MemoryKind::other);
}

TEST_F(GpuMemory, ABufferIdTellsABlockFromTheNextOneAtItsAddress) {
  CUdeviceptr first = 0;
  ASSERT_EQ(cuMemAlloc(&first, 4096), CUDA_SUCCESS);
  const std::uint64_t id = inspected(pointer(first)).buffer_id;
  ASSERT_EQ(cuMemFree(first), CUDA_SUCCESS);
  const DeviceBuffer second{4096};
  if (second.address() != first) GTEST_SKIP() << "needs driver-double: this driver gave out another address";
  EXPECT_NE(inspected(second.at()).buffer_id, id);
}

TEST_F(GpuMemory, AContextOfTheProgramsOwnIsTheOneThatIsUsed) {
  CUcontext own = nullptr;
  ASSERT_EQ(cuCtxCreate(&own, nullptr, 0, 0), CUDA_SUCCESS);
  DeviceBuffer in_own{4096};
  const Memory memory = inspected(in_own.at());
  EXPECT_EQ(memory.context, own);
  ASSERT_EQ(cuCtxSetCurrent(program_.context), CUDA_SUCCESS);
  {
    const auto work = WorkContext::of(memory);
    ASSERT_TRUE(work) << to_string(work.error());
    EXPECT_EQ(work->handle(), own);
    const auto current = CurrentContext::enter(work->handle());
    ASSERT_TRUE(current);
    CUcontext now = nullptr;
    ASSERT_EQ(cuCtxGetCurrent(&now), CUDA_SUCCESS);
    EXPECT_EQ(now, own);
  }
  CUcontext now = nullptr;
  ASSERT_EQ(cuCtxGetCurrent(&now), CUDA_SUCCESS);
  EXPECT_EQ(now, program_.context) << "the caller's context is current again";
  ASSERT_EQ(cuMemFree(in_own.release()), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxDestroy(own), CUDA_SUCCESS);
}

// The driver does not check the handles of destroyed contexts, and may give them to others.
TEST_F(GpuMemory, TheEndOfAContextIsNoticedWithoutUseOfItsHandle) {
  const auto primary = context_id(program_.context);
  ASSERT_TRUE(primary) << to_string(primary.error());
  std::uint64_t last = *primary;
  for (int round = 0; round < 20; ++round) {
    CUcontext own = nullptr;
    ASSERT_EQ(cuCtxCreate(&own, nullptr, 0, 0), CUDA_SUCCESS);
    const auto id = context_id(own);
    ASSERT_TRUE(id) << to_string(id.error());
    EXPECT_GT(*id, last);
    EXPECT_EQ(*context_id(own), *id);
    EXPECT_TRUE(context_alive(*id));
    ASSERT_EQ(cuCtxDestroy(own), CUDA_SUCCESS);
    EXPECT_FALSE(context_alive(*id));
    last = *id;
  }
  EXPECT_TRUE(context_alive(*primary));
  EXPECT_EQ(context_id(nullptr).error().code, Errc::invalid_argument);
}

TEST_F(GpuMemory, SynchronousFunctionsAreMadeSynchronousOncePerBuffer) {
  Control* const control = cuda_double::control();
  if (control == nullptr) GTEST_SKIP() << kNeedsDouble;
  const DeviceBuffer buffer{4096};
  const Memory memory = inspected(buffer.at());
  const std::uint64_t before = control->calls("cuPointerSetAttribute");
  for (int i = 0; i < 10; ++i) make_synchronous(memory);
  EXPECT_EQ(control->calls("cuPointerSetAttribute"), before + 1);
  unsigned is_set = 0;
  ASSERT_EQ(cuPointerGetAttribute(&is_set, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, buffer.address()), CUDA_SUCCESS);
  EXPECT_EQ(is_set, 1u);
}

// cuMemcpyHtoD from pageable memory returns when the bytes are staged: they may arrive after a copy in another stream.
TEST_F(GpuMemory, ACopyComesAfterTheProgramsEarlierSynchronousCalls) {
  constexpr std::size_t kSize = 40'000;
  Control* const control = cuda_double::control();
  for (unsigned round = 0; round < 50; ++round) {
    if (control != nullptr) {
      control->set(Setting::late, 8);
      control->set(Setting::seed, round);
    }
    DeviceBuffer buffer{kSize};
    std::vector<std::byte> found(kSize);
    buffer.write(pattern(kSize, round));
    ASSERT_TRUE(copy(found.data(), buffer.at(), kSize));
    EXPECT_EQ(found, pattern(kSize, round)) << "the first use, as a source";
    DeviceBuffer target{kSize};
    target.write(pattern(kSize, 7));
    ASSERT_TRUE(copy(target.at(), found.data(), kSize));
    EXPECT_EQ(target.read(), found) << "the first use, as a target";
    for (int i = 0; i < 3; ++i) {
      target.write(pattern(kSize, 8));
      ASSERT_TRUE(copy(target.at(), buffer.at(), kSize));
      EXPECT_EQ(target.read(), found) << "later ones";
    }
  }
}

TEST_F(GpuMemory, TheFirstUseDoesNotWaitForEverForKernelsOfTheProgram) {
  Control* const control = cuda_double::control();
  if (control == nullptr) GTEST_SKIP() << kNeedsDouble;
  const DeviceBuffer busy{4096};
  control->set(Setting::hold, 1);
  ASSERT_EQ(cuMemsetD8(busy.address(), 1, 4096), CUDA_SUCCESS);
  EXPECT_EQ(control->count(Count::unfinished), 1u);
  const DeviceBuffer buffer{4096};
  make_synchronous(inspected(buffer.at()));
  EXPECT_EQ(control->count(Count::unfinished), 1u);
}

TEST_F(GpuMemory, BlocksAtAConstantDistanceAreCopiedByOneCall) {
  constexpr std::size_t kBlock = 12;
  constexpr std::size_t kCount = 5'000;
  constexpr std::ptrdiff_t kStride = 20;
  const std::vector<std::byte> bytes = pattern(kCount * kStride);
  std::vector<std::byte> dense;
  for (std::size_t i = 0; i < kCount; ++i) {
    const auto block = bytes.begin() + static_cast<std::ptrdiff_t>(i) * kStride;
    dense.insert(dense.end(), block, block + kBlock);
  }
  Control* const control = cuda_double::control();
  const std::uint64_t before = control != nullptr ? control->calls("cuMemcpyAsync") : 0;
  DeviceBuffer spread{bytes.size()};
  spread.write(bytes);
  DeviceBuffer packed{dense.size()};
  constexpr std::ptrdiff_t kDense = kBlock;
  ASSERT_TRUE(copy_blocks(packed.at(), kDense, spread.at(), kStride, {kBlock, kCount}));
  EXPECT_EQ(packed.read(), dense) << "within the device";
  std::vector<std::byte> on_host(dense.size());
  ASSERT_TRUE(copy_blocks(on_host.data(), kDense, spread.at(), kStride, {kBlock, kCount}));
  EXPECT_EQ(on_host, dense) << "to the host";
  spread.write(std::vector<std::byte>(bytes.size()));
  ASSERT_TRUE(copy_blocks(spread.at(), kStride, on_host.data(), kDense, {kBlock, kCount}));
  const std::vector<std::byte> found = spread.read();
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i], i % kStride < kBlock ? bytes[i] : std::byte{}) << "from the host, byte " << i;
  }
  if (control != nullptr) {
    EXPECT_EQ(control->calls("cuMemcpyAsync"), before);
  }
}

TEST_F(GpuMemory, BlocksThatGoBackwardsOrOverlapAreCopiedOneByOne) {
  const std::vector<std::byte> bytes = pattern(100);
  DeviceBuffer buffer{100};
  buffer.write(bytes);
  std::vector<std::byte> backwards(100);
  ASSERT_TRUE(copy_blocks(backwards.data(), 10, buffer.at(90), -10, {10, 10}));
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(backwards[i], bytes[90 - i / 10 * 10 + i % 10]);
  std::vector<std::byte> repeated(40);
  ASSERT_TRUE(copy_blocks(repeated.data(), 10, buffer.at(), 0, {10, 4}));
  for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(repeated[i], bytes[i % 10]);
}

TEST_F(GpuMemory, AHostPageIsAskedForOnceUntilItIsUnmapped) {
  Control* const control = cuda_double::control();
  if (control == nullptr) GTEST_SKIP() << kNeedsDouble;
  if (memory::chosen_monitor()->monitor == nullptr) GTEST_SKIP() << "needs memory monitor: none works here";
  void* const page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_TRUE(is_host(page));
  const std::uint64_t asked = control->calls("cuPointerGetAttributes");
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(is_host(static_cast<std::byte*>(page) + i));
  EXPECT_EQ(control->calls("cuPointerGetAttributes"), asked);
  ::munmap(page, 4096);
  EXPECT_TRUE(is_host(page));
  EXPECT_EQ(control->calls("cuPointerGetAttributes"), asked + 1);
}

// Threads that classify while others unmap: no page of memory that went away stays known.
TEST_F(GpuMemory, ThreadsMayClassifyWhileOthersUnmap) {
  Control* const control = cuda_double::control();
  if (control == nullptr) GTEST_SKIP() << kNeedsDouble;
  if (memory::chosen_monitor()->monitor == nullptr) GTEST_SKIP() << "needs memory monitor: none works here";
  const DeviceBuffer buffer{4096};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        void* const page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        EXPECT_TRUE(is_host(page));
        EXPECT_FALSE(is_host(buffer.at()));
        EXPECT_EQ(inspect(buffer.at())->kind, MemoryKind::legacy);
        ::munmap(page, 4096);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  void* const page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const std::uint64_t asked = control->calls("cuPointerGetAttributes");
  EXPECT_TRUE(is_host(page));
  EXPECT_EQ(control->calls("cuPointerGetAttributes"), asked + 1) << "known from before it was unmapped";
  ::munmap(page, 4096);
}

// A message of no bytes may point past the end of a buffer, or to one that was freed: no device memory, today.
TEST_F(GpuMemory, AnAddressWhereNothingIsIsNotRememberedAsTheHosts) {
  CUdeviceptr freed = 0;
  ASSERT_EQ(cuMemAlloc(&freed, 64 << 10), CUDA_SUCCESS);
  ASSERT_EQ(cuMemFree(freed), CUDA_SUCCESS);
  EXPECT_TRUE(is_host(pointer(freed)));
  const DeviceBuffer again{64 << 10};
  EXPECT_FALSE(is_host(again.at()));
  if (cuda_double::control() != nullptr) {
    EXPECT_EQ(again.address(), freed) << "else this proves nothing";
  }
}

TEST_F(GpuMemory, DeviceMemoryIsNeverRemembered) {
  Control* const control = cuda_double::control();
  if (control == nullptr) GTEST_SKIP() << kNeedsDouble;
  const DeviceBuffer buffer{4096};
  const std::uint64_t asked = control->calls("cuPointerGetAttributes");
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(is_host(buffer.at()));
  EXPECT_EQ(control->calls("cuPointerGetAttributes"), asked + 10);
}

}  // namespace
}  // namespace opal::gpu::test
