// SPDX-License-Identifier: Apache-2.0
// Memory of the virtual-memory functions and of pools from device to device: by descriptor, which comes over the
// socket.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/gpu/pair.hpp"

namespace opal::gpu_pair {
namespace {

using opal::test::Channel;

constexpr std::size_t kSize = Mapped::kPiece;

enum class Kind : std::uint8_t { mapped, pooled };

/// A buffer of either kind, and its bytes.
class SharedBuffer {
 public:
  SharedBuffer(Kind kind, unsigned seed) {
    if (kind == Kind::mapped) {
      mapped_ = std::make_unique<Mapped>();
    } else {
      pooled_ = std::make_unique<Pooled>(kSize);
    }
    EXPECT_EQ(cuMemcpyHtoD(address(), pattern(kSize, seed).data(), kSize), CUDA_SUCCESS);
  }
  [[nodiscard]] CUdeviceptr address() const { return mapped_ != nullptr ? mapped_->address() : pooled_->address(); }
  [[nodiscard]] void* at() const { return pointer(address()); }
  [[nodiscard]] std::size_t size() const { return kSize; }

 private:
  std::unique_ptr<Mapped> mapped_;
  std::unique_ptr<Pooled> pooled_;
};

std::uint64_t opened() {
  const Control* const control = cuda_double::control();
  return control == nullptr ? 0 : control->count(Count::opened);
}

class SmcudaDescriptor : public ::testing::TestWithParam<Kind> {
 protected:
  static void with_owner(const User& user, const std::function<void(Control&)>& owners_driver = {},
                         const btl::smcuda::Settings& settings = {}) {
    const auto make = [] { return std::make_unique<SharedBuffer>(GetParam(), 1); };
    owner_and_user<SharedBuffer>({make, owners_driver}, user, settings);
  }

  /// Gets of GPU memory are to be staged until the descriptor is here.
  static void until_direct(SideEnd& here, void* to, std::uint64_t address, const MemoryHandle& handle,
                           std::uint64_t size = 64) {
    here.until([&] {
      const Error error = here.get(to, address, handle, size);
      EXPECT_TRUE(error.code == Errc{} || error.code == Errc::not_supported) << to_string(error);
      return error.code == Errc{};
    });
  }
};

INSTANTIATE_TEST_SUITE_P(Of, SmcudaDescriptor, ::testing::Values(Kind::mapped, Kind::pooled),
                         [](const auto& kind) { return kind.param == Kind::mapped ? "VirtualMemory" : "Pools"; });

TEST_P(SmcudaDescriptor, GetReadsFromDeviceToDeviceOnceTheDescriptorIsHere) {
  with_owner([](SideEnd& here, const MemoryHandle& handle, std::uint64_t address) {
    const DeviceBuffer to{kSize};
    EXPECT_EQ(here.get(to.at(), address, handle, 64).code, Errc::not_supported) << "staged: it is only asked for";
    until_direct(here, to.at(), address, handle);
    for (const std::size_t offset : {std::size_t{0}, std::size_t{4'097}, kSize - 1'000}) {
      ASSERT_EQ(here.get(to.at(), address + offset, handle, 1'000).code, Errc{});
      const auto all = pattern(kSize);
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(offset);
      EXPECT_EQ(to.read(0, 1'000), (std::vector<std::byte>{first, first + 1'000}));
    }
    EXPECT_EQ(here.get(to.at(), address, handle, kSize).code, Errc{});
    EXPECT_EQ(to.read(), pattern(kSize));
  });
}

TEST_P(SmcudaDescriptor, PutWritesFromDeviceToDevice) {
  with_owner([](SideEnd& here, const MemoryHandle& handle, std::uint64_t address) {
    DeviceBuffer buffer{kSize};
    until_direct(here, buffer.at(), address, handle);
    buffer.write(pattern(kSize, 7));
    EXPECT_EQ(here.put(buffer.at(), address, handle, kSize).code, Errc{});
    const DeviceBuffer back{kSize};
    EXPECT_EQ(here.get(back.at(), address, handle, kSize).code, Errc{});
    EXPECT_EQ(back.read(), pattern(kSize, 7));
  });
}

TEST_P(SmcudaDescriptor, HostMemoryIsServedByTheOwnerUntilTheDescriptorIsHere) {
  with_owner([](SideEnd& here, const MemoryHandle& handle, std::uint64_t address) {
    for (int i = 0; i < 3; ++i) {
      std::vector<std::byte> bytes(kSize);
      ASSERT_EQ(here.get(bytes.data(), address, handle, kSize).code, Errc{});
      EXPECT_EQ(bytes, pattern(kSize));
    }
  });
}

// A mapping of virtual memory is kept; one of a pool may not outlive the owner's allocation, so it is not.
TEST_P(SmcudaDescriptor, VirtualMemoryStaysMappedAndMemoryOfPoolsDoesNot) {
  if (cuda_double::control() == nullptr) GTEST_SKIP() << kNeedsDouble;
  with_owner([](SideEnd& here, const MemoryHandle& handle, std::uint64_t address) {
    const DeviceBuffer to{64};
    until_direct(here, to.at(), address, handle);
    for (int i = 0; i < 10; ++i) EXPECT_EQ(here.get(to.at(), address, handle, 64).code, Errc{});
    EXPECT_EQ(opened(), GetParam() == Kind::mapped ? 1u : 0u);
    EXPECT_EQ(here.module().remote_memory_statistics().misses, GetParam() == Kind::mapped ? 1u : 11u);
    EXPECT_EQ(cuda_double::control()->calls(GetParam() == Kind::mapped ? "cuMemImportFromShareableHandle"
                                                                       : "cuMemPoolImportFromShareableHandle"),
              1u);
  });
}

TEST_P(SmcudaDescriptor, ACheckpointUnmapsThePeersMemoryAndItIsMappedAnewAfterwards) {
  if (cuda_double::control() == nullptr) GTEST_SKIP() << kNeedsDouble;
  with_owner([](SideEnd& here, const MemoryHandle& handle, std::uint64_t address) {
    const DeviceBuffer to{64};
    until_direct(here, to.at(), address, handle);
    EXPECT_EQ(here.module().remote_memory_statistics().registered.count, GetParam() == Kind::mapped ? 1u : 0u);
    ASSERT_TRUE(here.module().release_remote_memory());
    EXPECT_EQ(opened(), 0u);
    EXPECT_EQ(here.module().remote_memory_statistics().registered.count, 0u);
    until_direct(here, to.at(), address, handle);
    EXPECT_EQ(here.get(to.at(), address, handle, 64).code, Errc{});
  });
}

TEST_P(SmcudaDescriptor, NotPinnedEveryTransferMapsAnew) {
  btl::smcuda::Settings settings;
  settings.cache.leave_pinned = false;
  with_owner(
      [](SideEnd& here, const MemoryHandle& handle, std::uint64_t address) {
        const DeviceBuffer to{64};
        until_direct(here, to.at(), address, handle);
        EXPECT_EQ(here.get(to.at(), address, handle, 64).code, Errc{});
        EXPECT_EQ(opened(), 0u);
      },
      {}, settings);
}

// R13, for memory without a handle of its own: the buffer id tells the next allocation from the one before.
TEST_P(SmcudaDescriptor, R13MemoryFreedAndAllocatedAgainAtTheSameAddressIsTheNewOne) {
  const Kind kind = GetParam();
  constexpr unsigned kRounds = 4;
  in_two_processes(
      [&](const Channel& other) {
        const CudaProgram program;
        SideEnd here{other};
        auto buffer = std::make_unique<SharedBuffer>(kind, 0);
        here.connect_gpus(buffer->at());
        for (unsigned round = 1; round <= kRounds; ++round) {
          buffer.reset();
          buffer = std::make_unique<SharedBuffer>(kind, round);
          const auto handle = here.module().register_memory(buffer->at(), kSize, Rights::remote_read);
          ASSERT_TRUE(handle);
          send(other, Window{buffer->at(), *handle});
          here.meet();
          EXPECT_TRUE(here.module().deregister_memory(*handle));
        }
      },
      [&](const Channel& other) {
        const CudaProgram program;
        const DeviceBuffer to{kSize};
        {
          SideEnd here{other};
          here.connect_gpus(to.at());
          for (unsigned round = 1; round <= kRounds; ++round) {
            const auto window = receive<Window>(other);
            // All at once: late news of the allocation that was at this address undoes the import again.
            until_direct(here, to.at(), window.address, window.memory(), kSize);
            EXPECT_EQ(to.read(), pattern(kSize, round)) << "memory of another allocation";
            EXPECT_LE(opened(), 1u) << "what was freed stays mapped";
            here.meet();
          }
        }
        EXPECT_EQ(opened(), 0u);
      });
}

TEST_P(SmcudaDescriptor, WhatTheOwnersDriverDoesNotExportIsStagedAndNotAskedForForEver) {
  if (cuda_double::control() == nullptr) GTEST_SKIP() << kNeedsDouble;
  with_owner(
      [](SideEnd& here, const MemoryHandle& handle, std::uint64_t address) {
        const DeviceBuffer to{64};
        for (int i = 0; i < 100; ++i) {
          EXPECT_EQ(here.get(to.at(), address, handle, 64).code, Errc::not_supported);
          here.module().progress(64);
        }
        std::vector<std::byte> bytes(64);
        EXPECT_EQ(here.get(bytes.data(), address, handle, 64).code, Errc{});
      },
      [](Control& control) {
        control.fail("cuMemExportToShareableHandle", CUDA_ERROR_NOT_SUPPORTED, 1'000);
        control.fail("cuMemPoolExportPointer", CUDA_ERROR_NOT_SUPPORTED, 1'000);
      });
}

TEST_P(SmcudaDescriptor, WhatTheDriverDoesNotImportOrMapIsStagedAndLeavesNothing) {
  if (cuda_double::control() == nullptr) GTEST_SKIP() << kNeedsDouble;
  const std::vector<const char*> functions =
      GetParam() == Kind::mapped
          ? std::vector{"cuMemImportFromShareableHandle", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess"}
          : std::vector{"cuMemPoolImportFromShareableHandle", "cuMemPoolSetAccess", "cuMemPoolImportPointer"};
  for (const char* const function : functions) {
    with_owner([&](SideEnd& here, const MemoryHandle& handle, std::uint64_t address) {
      const DeviceBuffer to{kSize};
      cuda_double::control()->fail(function, CUDA_ERROR_OUT_OF_MEMORY, 3);
      until_direct(here, to.at(), address, handle);
      EXPECT_GE(cuda_double::control()->calls(function), 4u) << function;
      EXPECT_EQ(here.get(to.at(), address, handle, kSize).code, Errc{});
      EXPECT_EQ(to.read(), pattern(kSize)) << function;
    });
  }
}

// A handle may say of itself what it wants.
TEST_P(SmcudaDescriptor, AHandleThatLiesAboutItsKindOrItsSizeIsStaged) {
  with_owner([](SideEnd& here, const MemoryHandle& handle, std::uint64_t address) {
    const DeviceBuffer to{64};
    btl::smcuda::wire::GpuHandle honest{};
    ASSERT_TRUE(read_object(handle.bytes(), honest));
    for (const std::uint64_t kind : {0u, 4u, 5u, 6u, 77u}) {
      auto lie = honest;
      lie.memory.kind = kind;
      lie.memory.buffer_id += 1'000 + kind;
      lie.memory.size = kind == 77 ? kSize : std::uint64_t{1} << 40;
      const MemoryHandle liar = *MemoryHandle::from_bytes(bytes_of(lie));
      for (int i = 0; i < 3; ++i) {
        EXPECT_NE(here.get(to.at(), address, liar, 64).code, Errc{}) << kind;
        here.module().progress(64);
      }
    }
    until_direct(here, to.at(), address, handle);
  });
}

TEST(SmcudaDescriptorOwner, ABufferOverTwoMappingsIsNotSharedAsOne) {
  in_two_processes(
      [](const Channel& other) {
        const CudaProgram program;
        const Mapped two{2};
        SideEnd here{other};
        const auto handle = here.module().register_memory(pointer(two.address()), two.size(), Rights::all);
        ASSERT_TRUE(handle);
        EXPECT_EQ(handle->bytes().size(), sizeof(btl::SoftwareHandle)) << "moved by its owner";
        EXPECT_TRUE(here.module().deregister_memory(*handle));
      },
      [](const Channel& other) {
        const CudaProgram program;
        const SideEnd here{other};
      });
}

// What is kept of a peer's memory is bounded, however much of it there is.
TEST(SmcudaDescriptorOwner, ManyAllocationsLeaveABoundedNumberOfImports) {
  constexpr std::size_t kMany = btl::smcuda::Imports::kMost + 20;
  in_two_processes(
      [](const Channel& other) {
        const CudaProgram program;
        SideEnd here{other};
        std::vector<std::unique_ptr<Mapped>> buffers;
        std::vector<MemoryHandle> handles;
        {
          const DeviceBuffer first{64};
          here.connect_gpus(first.at());
        }
        for (std::size_t i = 0; i < kMany; ++i) {
          buffers.push_back(std::make_unique<Mapped>());
          void* const at = pointer(buffers.back()->address());
          handles.push_back(*here.module().register_memory(at, kSize, Rights::remote_read));
          send(other, Window{at, handles.back()});
        }
        here.meet();
        for (const MemoryHandle& handle : handles) EXPECT_TRUE(here.module().deregister_memory(handle));
      },
      [](const Channel& other) {
        const CudaProgram program;
        const DeviceBuffer to{64};
        {
          btl::smcuda::Settings settings;
          settings.cache.count_limit = 8;
          SideEnd here{other, settings};
          here.connect_gpus(to.at());
          for (std::size_t i = 0; i < kMany; ++i) {
            const auto window = receive<Window>(other);
            here.until(
                [&] { return here.get(to.at(), window.address, window.memory(), 64).code != Errc::not_supported; });
            EXPECT_LE(opened(), 8u);
          }
          here.meet();
        }
        EXPECT_EQ(opened(), 0u);
      });
}

}  // namespace
}  // namespace opal::gpu_pair
