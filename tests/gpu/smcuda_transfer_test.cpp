// SPDX-License-Identifier: Apache-2.0
// Put and get of GPU memory by a mapping of the peer's memory (R12-R17), and what happens when that does not work.
#include <gtest/gtest.h>

#include <csignal>

#include <functional>
#include <memory>
#include <optional>
#include <random>

#include "tests/gpu/pair.hpp"

namespace opal::gpu_pair {
namespace {

using opal::test::Channel;

constexpr std::size_t kSize = 100'000;

/// A buffer of kSize bytes with an owner, while `user` does what it wants.
void with_owner(const User& user, const std::function<void(DeviceBuffer&)>& afterwards = {},
                const btl::smcuda::Settings& settings = {}) {
  const auto make = [] {
    auto buffer = std::make_unique<DeviceBuffer>(kSize);
    buffer->write(pattern(kSize));
    return buffer;
  };
  owner_and_user<DeviceBuffer>({make, {}, afterwards}, user, settings);
}

std::vector<std::byte> part(const std::vector<std::byte>& all, std::size_t offset, std::size_t size) {
  return {all.begin() + static_cast<std::ptrdiff_t>(offset), all.begin() + static_cast<std::ptrdiff_t>(offset + size)};
}

TEST(SmcudaTransfer, R17GetReadsFromDeviceToDeviceAtAnyOffsetFromTheAllocationsBase) {
  with_owner([](SideEnd& here, const MemoryHandle& handle, std::uint64_t address) {
    const DeviceBuffer to{kSize};
    for (const auto& [offset, size] : {std::pair{0u, 1u}, {12'345u, 1'000u}, {99'999u, 1u}, {0u, 100'000u}}) {
      EXPECT_EQ(here.get(to.at(offset), address + offset, handle, size).code, Errc{});
      EXPECT_EQ(to.read(offset, size), part(pattern(kSize), offset, size));
    }
    const auto counted = here.module().remote_memory_statistics();
    EXPECT_EQ(counted.misses, 1u);
    EXPECT_EQ(counted.hits, 3u) << "opened once, R12";
  });
}

TEST(SmcudaTransfer, R17GetIntoHostMemoryToo) {
  with_owner([](SideEnd& here, const MemoryHandle& handle, std::uint64_t address) {
    std::vector<std::byte> bytes(5'000);
    EXPECT_EQ(here.get(bytes.data(), address + 77, handle, bytes.size()).code, Errc{});
    EXPECT_EQ(bytes, part(pattern(kSize), 77, bytes.size()));
    EXPECT_EQ(here.module().remote_memory_statistics().misses, 1u);
  });
}

// gpusm: making one is cheap, and it is not reported when GPU memory goes away (R13).
TEST(SmcudaTransfer, R17HandlesOfOwnMemoryAreMadeAnewEachTime) {
  if (cuda_double::control() == nullptr) GTEST_SKIP() << kNeedsDouble;
  in_two_processes(
      [](const Channel& other) {
        const CudaProgram program;
        const DeviceBuffer buffer{kSize};
        SideEnd here{other};
        const Control& control = *cuda_double::control();
        const std::uint64_t made = control.calls("cuIpcGetMemHandle");
        for (std::uint64_t i = 1; i <= 5; ++i) {
          const auto handle = here.module().register_memory(buffer.at(), kSize, Rights::all);
          ASSERT_TRUE(handle);
          EXPECT_EQ(control.calls("cuIpcGetMemHandle"), made + i);
          EXPECT_TRUE(here.module().deregister_memory(*handle));
        }
        EXPECT_EQ(here.side.registrations().live(), 0u);
      },
      [](const Channel& other) {
        const CudaProgram program;
        const SideEnd here{other};
      });
}

TEST(SmcudaTransfer, PutWritesFromDeviceToDevice) {
  with_owner(
      [](SideEnd& here, const MemoryHandle& handle, std::uint64_t address) {
        DeviceBuffer from{1'000};
        from.write(pattern(1'000, 9));
        EXPECT_EQ(here.put(from.at(), address + 50'000, handle, 1'000).code, Errc{});
      },
      [](DeviceBuffer& buffer) {
        EXPECT_EQ(buffer.read(50'000, 1'000), pattern(1'000, 9));
        EXPECT_EQ(buffer.read(0, 50'000), part(pattern(kSize), 0, 50'000));
        EXPECT_EQ(buffer.read(51'000, 49'000), part(pattern(kSize), 51'000, 49'000));
      });
}

TEST(SmcudaTransfer, NothingButWhatWasRegisteredCanBeReached) {
  in_two_processes(
      [](const Channel& other) {
        const CudaProgram program;
        DeviceBuffer buffer{kSize};
        SideEnd here{other};
        here.connect_gpus(buffer.at());
        const auto handle = here.module().register_memory(buffer.at(1'000), 2'000, Rights::remote_read);
        ASSERT_TRUE(handle);
        send(other, Window{buffer.at(1'000), *handle});
        here.meet();
        EXPECT_TRUE(here.module().deregister_memory(*handle));
        here.meet();
        here.meet();
      },
      [](const Channel& other) {
        const CudaProgram program;
        const DeviceBuffer to{4'000};
        SideEnd here{other};
        here.connect_gpus(to.at());
        const auto window = receive<Window>(other);
        const MemoryHandle handle = window.memory();
        EXPECT_EQ(here.get(to.at(), window.address, handle, 2'000).code, Errc{});
        EXPECT_EQ(here.get(to.at(), window.address, handle, 2'001).code, Errc::invalid_argument);
        EXPECT_EQ(here.get(to.at(), window.address - 1, handle, 10).code, Errc::invalid_argument);
        EXPECT_EQ(here.put(to.at(), window.address, handle, 10).code, Errc::permission);
        here.meet();
        here.meet();
        EXPECT_EQ(here.get(to.at(), window.address, handle, 10).code, Errc::invalid_argument) << "deregistered";
        here.meet();
      });
}

// The range that the table vouches for is not in the allocation that the handle names: nothing is read beyond it.
TEST(SmcudaTransfer, AHandleThatLiesAboutItsAllocationIsRefused) {
  with_owner([](SideEnd& here, const MemoryHandle& handle, std::uint64_t address) {
    const DeviceBuffer to{kSize};
    const auto with = [&](const std::function<void(gpu::MemoryHandle&)>& lie) {
      btl::smcuda::wire::GpuHandle claims{};
      EXPECT_TRUE(btl::smcuda::wire::read(handle, claims));
      lie(claims.memory);
      return here.get(to.at(), address + 60'000, *MemoryHandle::from_bytes(bytes_of(claims)), 40'000).code;
    };
    EXPECT_EQ(with([](gpu::MemoryHandle& m) { m.size = 99'999; }), Errc::protocol);
    EXPECT_EQ(with([](gpu::MemoryHandle& m) { m.size = 10; }), Errc::protocol);
    EXPECT_EQ(with([&](gpu::MemoryHandle& m) { m.base = address + 60'001; }), Errc::protocol);
    EXPECT_EQ(with([](gpu::MemoryHandle& m) { m.base = ~0ULL; }), Errc::protocol);
    EXPECT_EQ(with([](gpu::MemoryHandle&) {}), Errc{});
    const MemoryHandle short_one = *MemoryHandle::from_bytes(handle.bytes().first(50));
    EXPECT_EQ(here.get(to.at(), address, short_one, 1).code, Errc::protocol);
  });
}

TEST(SmcudaTransfer, CopiesOfOnePeerEndInTheOrderInWhichTheyWerePosted) {
  with_owner([](SideEnd& here, const MemoryHandle& handle, std::uint64_t address) {
    if (Control* const control = cuda_double::control()) control->set(Setting::late, 20);
    struct Numbered : Completion {
      int number = 0;
      std::vector<int>* ended = nullptr;
    };
    const DeviceBuffer to{kSize};
    std::vector<int> ended;
    std::vector<Numbered> gets(50);
    for (int i = 0; i < 50; ++i) {
      gets[static_cast<std::size_t>(i)].number = i;
      gets[static_cast<std::size_t>(i)].ended = &ended;
      gets[static_cast<std::size_t>(i)].fn = [](Completion& self) noexcept {
        auto& get = static_cast<Numbered&>(self);
        EXPECT_TRUE(get.ok());
        get.ended->push_back(get.number);
      };
      const auto offset = static_cast<std::size_t>(i) * 1'000;
      ASSERT_EQ(here.module().get(*here.peer, to.at(offset), nullptr, address + offset, handle, 1'000,
                                  gets[static_cast<std::size_t>(i)]),
                Post::queued);
    }
    EXPECT_TRUE(ended.empty()) << "never from within a post";
    EXPECT_FALSE(here.module().arm()) << "must not sleep: no descriptor tells of the end of a copy";
    here.until([&] { return ended.size() == 50; });
    EXPECT_TRUE(std::is_sorted(ended.begin(), ended.end()));
    EXPECT_EQ(to.read(0, 50'000), part(pattern(kSize), 0, 50'000));
    EXPECT_EQ(here.module().copying(), 0u);
  });
}

TEST(SmcudaTransfer, EventsAreBoundedAndWhoFindsNoneComesAgain) {
  if (cuda_double::control() == nullptr) GTEST_SKIP() << kNeedsDouble;
  btl::smcuda::Settings settings;
  settings.gpu.copy_events = 3;
  with_owner(
      [](SideEnd& here, const MemoryHandle& handle, std::uint64_t address) {
        Control& control = *cuda_double::control();
        control.set(Setting::hold, 1);
        const DeviceBuffer to{64};
        opal::test::CountedCompletion gets[4];
        for (int i = 0; i < 3; ++i) {
          ASSERT_EQ(here.module().get(*here.peer, to.at(), nullptr, address, handle, 64, gets[i]), Post::queued);
        }
        EXPECT_EQ(here.module().get(*here.peer, to.at(), nullptr, address, handle, 64, gets[3]), Post::again);
        EXPECT_EQ(control.count(Count::events), 3u);
        control.set(Setting::hold, 0);
        control.release(3);
        here.until([&] { return gets[2].calls == 1; });
        EXPECT_EQ(here.get(to.at(), address, handle, 64).code, Errc{});
        EXPECT_EQ(control.count(Count::events), 3u);
      },
      {}, settings);
}

TEST(SmcudaTransfer, AFlushWaitsForThePutsBeforeIt) {
  if (cuda_double::control() == nullptr) GTEST_SKIP() << kNeedsDouble;
  with_owner([](SideEnd& here, const MemoryHandle& handle, std::uint64_t address) {
    Control& control = *cuda_double::control();
    const DeviceBuffer from{64};
    control.set(Setting::hold, 1);
    opal::test::CountedCompletion put;
    opal::test::CountedCompletion flush;
    ASSERT_EQ(here.module().put(*here.peer, from.at(), nullptr, address, handle, 64, put), Post::queued);
    ASSERT_EQ(here.module().flush(here.peer, flush), Post::queued);
    for (int i = 0; i < 100; ++i) here.module().progress(64);
    EXPECT_EQ(put.calls + flush.calls, 0);
    control.set(Setting::hold, 0);
    control.release(1);
    here.until([&] { return flush.calls == 1; });
    EXPECT_EQ(put.calls, 1);
    opal::test::CountedCompletion nothing;
    EXPECT_EQ(here.module().flush(nullptr, nothing), Post::done);
  });
}

/// What an injected failure of the user's driver does to a get: first of GPU memory, then of host memory.
void get_with(const std::function<void(Control&)>& prepare, std::optional<Errc> to_gpu) {
  if (cuda_double::control() == nullptr) GTEST_SKIP() << kNeedsDouble;
  with_owner([&](SideEnd& here, const MemoryHandle& handle, std::uint64_t address) {
    const DeviceBuffer to{kSize};
    prepare(*cuda_double::control());
    const Error got = here.get(to.at(), address, handle, kSize);
    if (to_gpu) {
      EXPECT_EQ(got.code, *to_gpu) << to_string(got);
    }
    prepare(*cuda_double::control());
    std::vector<std::byte> bytes(kSize);
    if (const Error host = here.get(bytes.data(), address, handle, kSize); host.code == Errc{}) {
      EXPECT_EQ(bytes, pattern(kSize));
    } else {
      EXPECT_NE(to_gpu, Errc::not_supported) << "the owner could have sent it: " << to_string(host);
    }
    cuda_double::control()->reset();
    EXPECT_EQ(here.module().copying(), 0u);
    bytes.assign(kSize, {});
    EXPECT_EQ(here.get(bytes.data(), address, handle, kSize).code, Errc{}) << "afterwards it works";
    EXPECT_EQ(bytes, pattern(kSize));
  });
}

TEST(SmcudaTransfer, WhatTheDriverDoesNotOpenIsStaged) {
  for (const CUresult why : {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, CUDA_ERROR_TOO_MANY_PEERS,
                             CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_ALREADY_MAPPED}) {
    get_with([&](Control& control) { control.fail("cuIpcOpenMemHandle", why, 100); }, Errc::not_supported);
  }
}

TEST(SmcudaTransfer, SmcudaDefectACopyThatDoesNotStartLeaksNothing) {
  get_with([](Control& control) { control.fail("cuMemcpyAsync", CUDA_ERROR_LAUNCH_FAILED, 1); }, Errc::not_supported);
}

TEST(SmcudaTransfer, SmcudaDefectACopyWithoutAnEventLeaksNothing) {
  get_with([](Control& control) { control.fail("cuEventRecord", CUDA_ERROR_OUT_OF_MEMORY, 1); }, Errc::not_supported);
}

TEST(SmcudaTransfer, ACopyThatFailsIsAnErrorOfThatTransferAlone) {
  get_with([](Control& control) { control.fail("cuEventQuery", CUDA_ERROR_LAUNCH_FAILED, 1); }, Errc::os);
}

// R13: 32 KB freed, 64 KB allocated at the same base, on a driver that refuses to map twice.
TEST(SmcudaTransfer, R13MemoryFreedAndAllocatedAgainAtTheSameAddressIsTheNewOne) {
  for (const bool refusing : {false, true}) {
    in_two_processes(
        [](const Channel& other) {
          const CudaProgram program;
          SideEnd here{other};
          auto buffer = std::make_unique<DeviceBuffer>(32 << 10);
          here.connect_gpus(buffer->at());
          for (const std::size_t size : {std::size_t{32} << 10, std::size_t{64} << 10, std::size_t{16} << 10}) {
            buffer.reset();
            buffer = std::make_unique<DeviceBuffer>(size);
            buffer->write(pattern(size, static_cast<unsigned>(size >> 10)));
            const auto handle = here.module().register_memory(buffer->at(), size, Rights::remote_read);
            ASSERT_TRUE(handle);
            send(other, Window{buffer->at(), *handle});
            here.meet();
            EXPECT_TRUE(here.module().deregister_memory(*handle));
          }
        },
        [&](const Channel& other) {
          const CudaProgram program;
          if (Control* const control = cuda_double::control()) {
            control->set(Setting::already_mapped, refusing ? 1 : 0);
          }
          const DeviceBuffer to{64 << 10};
          SideEnd here{other};
          here.connect_gpus(to.at());
          for (const std::size_t size : {std::size_t{32} << 10, std::size_t{64} << 10, std::size_t{16} << 10}) {
            const auto window = receive<Window>(other);
            EXPECT_EQ(here.get(to.at(), window.address, window.memory(), size).code, Errc{});
            EXPECT_EQ(to.read(0, size), pattern(size, static_cast<unsigned>(size >> 10)));
            here.meet();
          }
          EXPECT_EQ(here.module().remote_memory_statistics().misses, 3u) << "each of them by a mapping";
        });
  }
}

TEST(SmcudaTransfer, APeersDeathEndsWhatIsUnderWayOnceAndUnmapsEverything) {
  in_own_process([] {
    opal::test::Child owner{[](Channel& other) {
      const CudaProgram program;
      DeviceBuffer buffer{kSize};
      SideEnd here{other};
      here.connect_gpus(buffer.at());
      const auto handle = here.module().register_memory(buffer.at(), kSize, Rights::all);
      send(other, Window{buffer.at(), *handle});
      for (;;) here.module().progress(64);
      return 0;
    }};
    const CudaProgram program;
    const DeviceBuffer to{kSize};
    SideEnd here{owner.channel()};
    here.connect_gpus(to.at());
    const auto window = receive<Window>(owner.channel());
    ASSERT_EQ(here.get(to.at(), window.address, window.memory(), 64).code, Errc{});
    if (Control* const control = cuda_double::control()) control->set(Setting::late, 50);
    opal::test::CountedCompletion get;
    ASSERT_EQ(here.module().get(*here.peer, to.at(), nullptr, window.address, window.memory(), kSize, get),
              Post::queued);
    owner.kill();
    here.until([&] { return !here.side.failures.empty(); });
    EXPECT_EQ(get.calls, 1) << "before the failure is told";
    EXPECT_EQ(here.side.failures.size(), 1u);
    EXPECT_FALSE(here.peer->gpu_direct);
    EXPECT_EQ(here.module().copying(), 0u);
    if (Control* const control = cuda_double::control()) {
      EXPECT_EQ(control->count(Count::opened), 0u);
    }
    opal::test::CountedCompletion late;
    EXPECT_EQ(here.module().get(*here.peer, to.at(), nullptr, window.address, window.memory(), 64, late), Post::failed);
    EXPECT_EQ(late.error.code, Errc::peer_gone);
  });
}

TEST(SmcudaTransfer, ClosingTheModuleInTheMiddleOfACopyWaitsForIt) {
  in_two_processes(
      [](const Channel& other) {
        const CudaProgram program;
        DeviceBuffer buffer{kSize};
        buffer.write(pattern(kSize));
        SideEnd here{other};
        here.connect_gpus(buffer.at());
        const auto handle = here.module().register_memory(buffer.at(), kSize, Rights::all);
        send(other, Window{buffer.at(), *handle});
        here.until([&] { return !here.side.failures.empty(); });
        EXPECT_TRUE(other.expect("closed"));
      },
      [](const Channel& other) {
        const CudaProgram program;
        const DeviceBuffer to{kSize};
        opal::test::CountedCompletion get;
        {
          SideEnd here{other};
          here.leaves_at_once = true;
          here.connect_gpus(to.at());
          const auto window = receive<Window>(other);
          if (Control* const control = cuda_double::control()) control->set(Setting::late, 50);
          ASSERT_EQ(here.module().get(*here.peer, to.at(), nullptr, window.address, window.memory(), kSize, get),
                    Post::queued);
        }
        EXPECT_EQ(get.calls, 1);
        EXPECT_EQ(to.read(), pattern(kSize));
        other.send("closed");
        if (Control* const control = cuda_double::control()) {
          EXPECT_EQ(control->count(Count::opened), 0u);
        }
      });
}

TEST(SmcudaTransfer, AtomicsOnGpuMemoryAreRefused) {
  with_owner([](SideEnd& here, const MemoryHandle& handle, std::uint64_t address) {
    Completion completion;
    const AtomicRequest request{.op = AtomicOp::add,
                                .type = AtomicType::u64,
                                .remote_address = address,
                                .remote = &handle,
                                .operand = 1,
                                .compare = 0,
                                .result = nullptr};
    EXPECT_EQ(here.module().atomic(*here.peer, request, completion), Post::failed);
    EXPECT_EQ(completion.error.code, Errc::not_supported);
  });
}

}  // namespace
}  // namespace opal::gpu_pair
