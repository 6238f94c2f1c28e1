// SPDX-License-Identifier: Apache-2.0
// Device memory of one process in another one.
#include "opal/gpu/sharing/remote_memory.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "opal/gpu/context.hpp"
#include "tests/gpu/program.hpp"

namespace opal::gpu::test {
namespace {

using opal::test::Channel;

MemoryHandle exported(const DeviceBuffer& buffer) {
  const auto handle = export_memory(*inspect(buffer.at(buffer.size() / 2)));
  EXPECT_TRUE(handle) << to_string(handle.error());
  return handle ? *handle : MemoryHandle{};
}

std::vector<std::byte> read(std::uintptr_t address, std::size_t size) {
  std::vector<std::byte> bytes(size);
  EXPECT_EQ(cuMemcpyDtoH(bytes.data(), address, size), CUDA_SUCCESS);
  return bytes;
}

/// An owner that exports `count` buffers and lives until the other process says so.
void own_buffers(const Channel& other, int count, std::size_t size) {
  const CudaProgram program;
  std::vector<std::unique_ptr<DeviceBuffer>> buffers;
  for (int i = 0; i < count; ++i) {
    buffers.push_back(std::make_unique<DeviceBuffer>(size));
    buffers.back()->write(pattern(size, static_cast<unsigned>(i)));
    send(other, exported(*buffers.back()));
  }
  EXPECT_TRUE(other.expect("done"));
}

// R17: the receiver opens the handle, adds the offset and reads.
TEST(GpuRemoteMemory, TheOtherProcessReadsAtAnyOffsetOfTheAllocation) {
  in_two_processes(
      [](const Channel& other) { own_buffers(other, 1, 100'000); },
      [](const Channel& other) {
        const CudaProgram program;
        const auto handle = receive<MemoryHandle>(other);
        EXPECT_EQ(handle.size, 100'000u);
        const auto address = open_memory(handle, program.context);
        ASSERT_TRUE(address) << to_string(address.error());
        const auto all = pattern(100'000, 0);
        EXPECT_EQ(read(*address + 12'345, 1'000), (std::vector<std::byte>{all.begin() + 12'345, all.begin() + 13'345}));
        EXPECT_EQ(inspect(pointer(*address))->kind, MemoryKind::other) << "not to be exported again";
        close_memory(*address, program.context);
        EXPECT_TRUE(is_host(pointer(*address))) << "nothing is there any more";
        other.send("done");
      });
}

TEST(GpuRemoteMemory, WhatWasNotMadeToBeSharedHasNoHandle) {
  in_own_process([] {
    const CudaProgram program;
    const Mapped mapped{1, false};
    CUdeviceptr pooled = 0;
    ASSERT_EQ(cuMemAllocAsync(&pooled, 4096, nullptr), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamSynchronize(nullptr), CUDA_SUCCESS);
    const int on_host = 0;
    for (const void* address : {static_cast<const void*>(pointer(mapped.address())),
                                static_cast<const void*>(pointer(pooled)), static_cast<const void*>(&on_host)}) {
      const auto handle = export_memory(*inspect(address));
      ASSERT_FALSE(handle);
      EXPECT_EQ(handle.error().code, Errc::not_supported);
    }
    cuMemFreeAsync(pooled, nullptr);
    cuStreamSynchronize(nullptr);
  });
}

TEST(GpuRemoteMemory, HandlesAreEqualExactlyForTheSameAllocation) {
  in_own_process([] {
    const CudaProgram program;
    auto buffer = std::make_unique<DeviceBuffer>(32 << 10);
    const MemoryHandle first = exported(*buffer);
    EXPECT_EQ(exported(*buffer), first);
    buffer.reset();
    buffer = std::make_unique<DeviceBuffer>(32 << 10);
    EXPECT_NE(exported(*buffer), first) << "perhaps at the same address, but another allocation";
    const DeviceBuffer second{32 << 10};
    EXPECT_NE(exported(second), exported(*buffer));
  });
}

TEST(GpuRemoteMemory, ExportingMakesTheProgramsSynchronousFunctionsSynchronous) {
  in_own_process([] {
    const CudaProgram program;
    const DeviceBuffer buffer{4096};
    (void)exported(buffer);
    unsigned is_set = 0;
    ASSERT_EQ(cuPointerGetAttribute(&is_set, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, buffer.address()), CUDA_SUCCESS);
    EXPECT_EQ(is_set, 1u);
  });
}

TEST(GpuRemoteMemory, ItsOwnHandleAProcessCannotOpen) {
  in_own_process([] {
    const CudaProgram program;
    const DeviceBuffer buffer{4096};
    const auto opened = open_memory(exported(buffer), program.context);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Errc::invalid_argument);
  });
}

TEST(GpuRemoteMemory, AHandleThatIsNoneIsRefused) {
  in_own_process([] {
    const CudaProgram program;
    MemoryHandle nonsense{.base = 4096, .size = 4096, .buffer_id = 1, .device = *device_id(0)};
    nonsense.driver.fill(std::byte{0x5a});
    EXPECT_FALSE(open_memory(nonsense, program.context));
  });
}

TEST(GpuRemoteMemory, AHandleThatClaimsMoreThanTheAllocationIsRefusedAndClosedAgain) {
  if (cuda_double::control() == nullptr) GTEST_SKIP() << kNeedsDouble;
  in_two_processes([](const Channel& other) { own_buffers(other, 1, 4096); },
                   [](const Channel& other) {
                     const CudaProgram program;
                     cuda_double::control()->set(Setting::ipc_limit, 1);
                     const auto honest = receive<MemoryHandle>(other);
                     MemoryHandle forged = honest;
                     forged.size = std::uint64_t{1} << 40;
                     const auto refused = open_memory(forged, program.context);
                     ASSERT_FALSE(refused);
                     EXPECT_EQ(refused.error().code, Errc::protocol) << to_string(refused.error());
                     const auto opened = open_memory(honest, program.context);
                     ASSERT_TRUE(opened) << to_string(opened.error());
                     close_memory(*opened, program.context);
                     other.send("done");
                   });
}

/// The user's process sets its double up by `prepare`, and opens two handles, which gives `first` and `second`.
void opening_gives(const std::function<void(Control&)>& prepare, std::optional<Errc> first,
                   std::optional<Errc> second) {
  if (cuda_double::control() == nullptr) GTEST_SKIP() << kNeedsDouble;
  in_two_processes([](const Channel& other) { own_buffers(other, 2, 4096); },
                   [&](const Channel& other) {
                     const CudaProgram program;
                     prepare(*cuda_double::control());
                     for (const auto& expected : {first, second}) {
                       const auto opened = open_memory(receive<MemoryHandle>(other), program.context);
                       ASSERT_EQ(opened.has_value(), !expected.has_value());
                       if (expected) {
                         EXPECT_EQ(opened.error().code, *expected) << to_string(opened.error());
                       }
                     }
                     other.send("done");
                   });
}

TEST(GpuRemoteMemory, BeyondTheDriversLimitThereIsNoMemory) {
  opening_gives([](Control& control) { control.set(Setting::ipc_limit, 1); }, std::nullopt, Errc::no_memory);
}

TEST(GpuRemoteMemory, WithTooManyPeersALimitIsReached) {
  opening_gives([](Control& control) { control.fail("cuIpcOpenMemHandle", CUDA_ERROR_TOO_MANY_PEERS); },
                Errc::limit_reached, std::nullopt);
}

TEST(GpuRemoteMemory, AlreadyMappedIsBusy) {
  opening_gives([](Control& control) { control.fail("cuIpcOpenMemHandle", CUDA_ERROR_ALREADY_MAPPED); }, Errc::busy,
                std::nullopt);
}

TEST(GpuRemoteMemory, WithoutAccessBetweenTheDevicesItIsNotSupported) {
  if (cuda_double::control() == nullptr) GTEST_SKIP() << kNeedsDouble;
  in_two_processes([](const Channel& other) { own_buffers(other, 1, 4096); },
                   [](const Channel& other) {
                     const CudaProgram program{1};
                     cuda_double::control()->set(Setting::peer_access, 0);
                     const auto opened = open_memory(receive<MemoryHandle>(other), program.context);
                     ASSERT_FALSE(opened);
                     EXPECT_EQ(opened.error().code, Errc::not_supported);
                     other.send("done");
                   });
}

TEST(GpuRemoteMemory, WhatItsOwnerFreedCannotBeOpened) {
  in_two_processes(
      [](const Channel& other) {
        const CudaProgram program;
        {
          const DeviceBuffer buffer{4096};
          send(other, exported(buffer));
        }
        other.send("freed");
        EXPECT_TRUE(other.expect("done"));
      },
      [](const Channel& other) {
        const CudaProgram program;
        const auto handle = receive<MemoryHandle>(other);
        ASSERT_TRUE(other.expect("freed"));
        EXPECT_FALSE(open_memory(handle, program.context));
        other.send("done");
      });
}

TEST(GpuRemoteMemory, ClosingInAContextThatWasDestroyedDoesNothing) {
  in_two_processes([](const Channel& other) { own_buffers(other, 1, 4096); },
                   [](const Channel& other) {
                     const CudaProgram program;
                     CUcontext own = nullptr;
                     ASSERT_EQ(cuCtxCreate(&own, nullptr, 0, 0), CUDA_SUCCESS);
                     const auto address = open_memory(receive<MemoryHandle>(other), own);
                     ASSERT_TRUE(address) << to_string(address.error());
                     const auto id = context_id(own);
                     ASSERT_TRUE(id && context_alive(*id));
                     ASSERT_EQ(cuCtxDestroy(own), CUDA_SUCCESS);
                     close_memory(*address, context_alive(*id) ? own : nullptr);
                     EXPECT_EQ(inspect(pointer(*address))->buffer_id, 0u) << "the mapping went with the context";
                     EXPECT_EQ(open_memory(MemoryHandle{}, nullptr).error().code, Errc::invalid_argument);
                     other.send("done");
                   });
}

}  // namespace
}  // namespace opal::gpu::test
