// SPDX-License-Identifier: Apache-2.0
// How two processes find out whether they can map each other's GPU memory (R16), over the transport itself.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/gpu/pair.hpp"

namespace opal::gpu_pair {
namespace {

using btl::smcuda::Ipc;
using btl::smcuda::IpcState;
using opal::test::Channel;

bool usable(IpcState state) { return state == IpcState::acked || state == IpcState::ok; }

TEST(SmcudaIpc, R16HostMessagesAskForNothing) {
  const auto end = [](const Channel& other) {
    const CudaProgram program;
    SideEnd here{other};
    const std::uint64_t word = 1;
    for (int i = 0; i < 100; ++i) here.send(&word, sizeof word);
    here.meet();
    EXPECT_EQ(here.state(), IpcState::init);
    EXPECT_FALSE(here.peer->gpu_direct);
  };
  in_two_processes(end, end);
}

TEST(SmcudaIpc, R16TheFirstGpuBufferOfASendConnectsBothSides) {
  in_two_processes(
      [](const Channel& other) {
        const CudaProgram program;
        DeviceBuffer buffer{64};
        buffer.write(pattern(64));
        SideEnd here{other};
        here.send(buffer.at(), 64);
        here.until([&] { return here.peer->gpu_direct; });
        EXPECT_EQ(here.state(), IpcState::ok);
        EXPECT_EQ(here.module().ipc_of(*here.peer).attempts, 1);
        here.meet();
      },
      [](const Channel& other) {
        const CudaProgram program;
        SideEnd here{other};
        here.meet();
        EXPECT_EQ(here.state(), IpcState::acked);
        EXPECT_TRUE(here.peer->gpu_direct);
        ASSERT_EQ(here.side.received.size(), 1u);
        EXPECT_EQ(here.side.received[0], pattern(64)) << "the message itself came through the host";
      });
}

// The other send path: the initiator of a get or put.
TEST(SmcudaIpc, R16TheFirstGpuBufferOfAGetConnectsBothSides) {
  in_two_processes(
      [](const Channel& other) {
        const CudaProgram program;
        DeviceBuffer buffer{4096};
        buffer.write(pattern(4096));
        SideEnd here{other};
        const auto handle = here.module().register_memory(buffer.at(), 4096, Rights::all);
        ASSERT_TRUE(handle) << to_string(handle.error());
        send(other, Window{buffer.at(), *handle});
        here.meet();
        EXPECT_EQ(here.state(), IpcState::acked);
        EXPECT_TRUE(here.module().deregister_memory(*handle));
      },
      [](const Channel& other) {
        const CudaProgram program;
        SideEnd here{other};
        const auto window = receive<Window>(other);
        std::vector<std::byte> bytes(4096);
        EXPECT_EQ(here.get(bytes.data(), window.address, window.memory(), 4096).code, Errc{});
        EXPECT_EQ(bytes, pattern(4096)) << "the owner sent it, nothing was agreed yet";
        here.until([&] { return here.peer->gpu_direct; });
        EXPECT_EQ(here.state(), IpcState::ok);
        EXPECT_EQ(here.get(bytes.data(), window.address, window.memory(), 4096).code, Errc{});
        EXPECT_EQ(here.module().remote_memory_statistics().misses, 1u) << "now by a mapping";
        here.meet();
      });
}

TEST(SmcudaIpc, ContextsThatTheProgramDestroysTakeTheirMappingsWithThem) {
  const auto make = [] {
    auto buffer = std::make_unique<DeviceBuffer>(4096);
    buffer->write(pattern(4096));
    return buffer;
  };
  owner_and_user<DeviceBuffer>({make}, [](SideEnd& here, const MemoryHandle& handle, std::uint64_t address) {
    // A real driver may refuse to open memory in a second context of the device; a Context then stages the transfer.
    const bool may_refuse = cuda_double::control() == nullptr;
    for (unsigned round = 1; round <= 3; ++round) {
      CUcontext own = nullptr;
      ASSERT_EQ(cuCtxCreate(&own, nullptr, 0, 0), CUDA_SUCCESS);
      DeviceBuffer in_own{4096};
      const Error error = here.get(in_own.at(), address, handle, 4096);
      EXPECT_TRUE(error.code == Errc{} || (may_refuse && error.code == Errc::not_supported)) << to_string(error);
      if (error.code == Errc{}) {
        EXPECT_EQ(in_own.read(), pattern(4096));
      }
      if (!may_refuse) {
        EXPECT_EQ(here.module().remote_memory_statistics().misses, round == 1 ? 1u : round + 1);
      }
      ASSERT_EQ(cuMemFree(in_own.release()), CUDA_SUCCESS);
      ASSERT_EQ(cuCtxDestroy(own), CUDA_SUCCESS);
      DeviceBuffer in_primary{4096};
      const Error later = here.get(in_primary.at(), address, handle, 4096);
      EXPECT_TRUE(later.code == Errc{} || (may_refuse && later.code == Errc::not_supported)) << to_string(later);
      if (later.code == Errc{}) {
        EXPECT_EQ(in_primary.read(), pattern(4096));
      }
    }
  });
}

TEST(SmcudaIpc, R16BothMayStartAtTheSameTime) {
  const auto end = [](const Channel& other) {
    const CudaProgram program;
    const DeviceBuffer buffer{64};
    SideEnd here{other};
    here.meet();
    // Neither looks for messages before both requests are out.
    other.send("met");
    ASSERT_TRUE(other.expect("met"));
    auto fragment = here.module().prepare_src(*here.peer, {}, {static_cast<const std::byte*>(buffer.at()), 64});
    ASSERT_TRUE(fragment);
    ASSERT_NE(here.module().send(fragment, opal::test::kTag), Post::again);
    other.send("asked");
    ASSERT_TRUE(other.expect("asked"));
    ASSERT_EQ(here.state(), IpcState::sent);
    here.until([&] { return here.peer->gpu_direct; });
    EXPECT_EQ(here.state(), here.side.id() < here.peer->peer() ? IpcState::acked : IpcState::ok);
    here.meet();
  };
  in_two_processes(end, end);
}

TEST(SmcudaIpc, R16AfterFiveAnswersNotReadyItGivesUp) {
  in_two_processes(
      [](const Channel& other) {
        const CudaProgram program;
        const DeviceBuffer buffer{64};
        SideEnd here{other};
        for (unsigned attempt = 1; attempt <= Ipc::kAttempts; ++attempt) {
          here.send(buffer.at(), 8);
          EXPECT_EQ(here.module().ipc_of(*here.peer).attempts, attempt);
          here.until([&] { return here.state() != IpcState::sent; });
          EXPECT_EQ(here.state(), attempt < Ipc::kAttempts ? IpcState::init : IpcState::bad);
        }
        for (int i = 0; i < 10; ++i) here.send(buffer.at(), 8);
        EXPECT_EQ(here.module().ipc_of(*here.peer).attempts, Ipc::kAttempts);
        EXPECT_FALSE(here.peer->gpu_direct);
        here.meet();
        // The peer gets so far after all, and starts it from its side.
        here.meet();
        EXPECT_TRUE(here.peer->gpu_direct);
        EXPECT_EQ(here.state(), IpcState::acked);
      },
      [](const Channel& other) {
        memory::start_monitor({});
        ASSERT_TRUE(gpu::start({}).loaded) << "the driver is there, but the program has not initialised it";
        SideEnd here{other};
        here.meet();
        EXPECT_EQ(here.state(), IpcState::init);
        const CudaProgram program;
        const DeviceBuffer buffer{64};
        here.send(buffer.at(), 8);
        here.until([&] { return here.peer->gpu_direct; });
        here.meet();
      });
}

TEST(SmcudaIpc, R16WithoutAccessBetweenTheDevicesItIsBadForBoth) {
  if (cuda_double::control() == nullptr) GTEST_SKIP() << kNeedsDouble;
  in_two_processes(
      [](const Channel& other) {
        const CudaProgram program;
        const DeviceBuffer buffer{64};
        SideEnd here{other};
        here.send(buffer.at(), 8);
        here.until([&] { return here.state() != IpcState::sent; });
        EXPECT_EQ(here.state(), IpcState::bad);
        here.meet();
      },
      [](const Channel& other) {
        const CudaProgram program{1};
        cuda_double::control()->set(Setting::peer_access, 0);
        SideEnd here{other};
        here.meet();
        EXPECT_EQ(here.state(), IpcState::bad);
        EXPECT_FALSE(here.peer->gpu_direct);
      });
}

// smcuda of Open MPI compares ordinals: both processes call their device 0, and it is not the same.
TEST(SmcudaIpc, SmcudaDefectDevicesAreComparedByUuidNotByOrdinal) {
  if (cuda_double::control() == nullptr) GTEST_SKIP() << kNeedsDouble;
  in_two_processes(
      [](const Channel& other) {
        ::setenv("CUDA_VISIBLE_DEVICES", "0", 1);
        const CudaProgram program;
        const DeviceBuffer buffer{64};
        SideEnd here{other};
        here.send(buffer.at(), 8);
        here.until([&] { return here.state() != IpcState::sent; });
        EXPECT_EQ(here.state(), IpcState::bad) << "the peer cannot even see this device";
        here.meet();
      },
      [](const Channel& other) {
        ::setenv("CUDA_VISIBLE_DEVICES", "1", 1);
        const CudaProgram program;
        SideEnd here{other};
        here.meet();
        EXPECT_EQ(here.state(), IpcState::bad);
      });
}

TEST(SmcudaIpc, R16SwitchedOffItIsRefused) {
  in_two_processes(
      [](const Channel& other) {
        const CudaProgram program;
        const DeviceBuffer buffer{64};
        SideEnd here{other};
        here.send(buffer.at(), 8);
        here.until([&] { return here.state() != IpcState::sent; });
        EXPECT_EQ(here.state(), IpcState::bad);
        here.meet();
      },
      [](const Channel& other) {
        const CudaProgram program;
        btl::smcuda::Settings settings;
        settings.own.ipc = false;
        SideEnd here{other, settings};
        here.meet();
        EXPECT_FALSE(here.peer->gpu_direct);
      });
}

TEST(SmcudaIpc, R16NonsenseFromAPeerChangesNothing) {
  in_two_processes(
      [](const Channel& other) {
        const CudaProgram program;
        SideEnd here{other};
        const std::uint64_t nonsense[4] = {~0ULL, 1, 2, 3};
        const auto bytes = bytes_of(nonsense);
        for (const Tag tag : {btl::smcuda::wire::kRequest, btl::smcuda::wire::kAnswer}) {
          for (const std::size_t size : {0u, 1u, 8u, 16u, 17u, 32u}) {
            here.until([&] { return here.module().send_inline(*here.peer, tag, bytes.first(size), {}) == Post::done; });
          }
        }
        here.meet();
        EXPECT_FALSE(here.peer->gpu_direct);
      },
      [](const Channel& other) {
        const CudaProgram program;
        SideEnd here{other};
        here.meet();
        EXPECT_FALSE(usable(here.state())) << "of a device that does not exist";
      });
}

}  // namespace
}  // namespace opal::gpu_pair
