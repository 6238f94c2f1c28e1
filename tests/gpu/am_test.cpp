// SPDX-License-Identifier: Apache-2.0
// Contexts with GPU memory on either side, over every transport: messages, put, get, flush; the same bytes whatever way
// they go (R15: GPU to GPU where that is possible, through host memory otherwise).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <new>
#include <random>

#include "opal/core/clock.hpp"
#include "tests/gpu/pair.hpp"
#include "tests/harness/log_lines.hpp"

namespace opal::gpu_pair {
namespace {

using opal::test::Channel;
using opal::test::LogLines;
using Settings = std::vector<std::pair<std::string, std::string>>;

/// Memory of any kind, filled and read through the driver.
class AnyBuffer {
 public:
  static constexpr std::array kKinds{gpu::MemoryKind::host,   gpu::MemoryKind::pinned, gpu::MemoryKind::managed,
                                     gpu::MemoryKind::legacy, gpu::MemoryKind::mapped, gpu::MemoryKind::pooled};

  AnyBuffer(gpu::MemoryKind kind, std::size_t size) : kind_(kind) {
    switch (kind) {
      case gpu::MemoryKind::host: host_.resize(size); break;
      case gpu::MemoryKind::pinned: EXPECT_EQ(cuMemHostAlloc(&pinned_, size, 0), CUDA_SUCCESS); break;
      case gpu::MemoryKind::managed:
        EXPECT_EQ(cuMemAllocManaged(&device_, size, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
        break;
      case gpu::MemoryKind::mapped:
        mapped_ = std::make_unique<Mapped>((size + Mapped::kPiece - 1) / Mapped::kPiece);
        break;
      case gpu::MemoryKind::pooled:
        EXPECT_EQ(cuMemAllocAsync(&device_, size, nullptr), CUDA_SUCCESS);
        EXPECT_EQ(cuStreamSynchronize(nullptr), CUDA_SUCCESS);
        break;
      default: EXPECT_EQ(cuMemAlloc(&device_, size), CUDA_SUCCESS);
    }
  }
  ~AnyBuffer() {
    if (pinned_ != nullptr) cuMemFreeHost(pinned_);
    if (kind_ == gpu::MemoryKind::pooled) {
      cuMemFreeAsync(device_, nullptr);
      cuStreamSynchronize(nullptr);
    } else if (device_ != 0) {
      cuMemFree(device_);
    }
  }
  AnyBuffer(const AnyBuffer&) = delete;
  AnyBuffer& operator=(const AnyBuffer&) = delete;

  [[nodiscard]] std::byte* at(std::size_t offset = 0) {
    void* const base = kind_ == gpu::MemoryKind::host     ? host_.data()
                       : kind_ == gpu::MemoryKind::pinned ? pinned_
                       : kind_ == gpu::MemoryKind::mapped ? pointer(mapped_->address())
                                                          : pointer(device_);
    return static_cast<std::byte*>(base) + offset;
  }
  void write(const std::vector<std::byte>& bytes) {
    if (kind_ == gpu::MemoryKind::host || kind_ == gpu::MemoryKind::pinned) {
      std::copy(bytes.begin(), bytes.end(), at());
    } else {
      EXPECT_EQ(cuMemcpyHtoD(reinterpret_cast<CUdeviceptr>(at()), bytes.data(), bytes.size()), CUDA_SUCCESS);
    }
  }
  [[nodiscard]] std::vector<std::byte> read(std::size_t size) {
    std::vector<std::byte> bytes(size);
    if (kind_ == gpu::MemoryKind::host || kind_ == gpu::MemoryKind::pinned) {
      std::copy(at(), at(size), bytes.begin());
    } else {
      EXPECT_EQ(cuMemcpyDtoH(bytes.data(), reinterpret_cast<CUdeviceptr>(at()), size), CUDA_SUCCESS);
    }
    return bytes;
  }

 private:
  const gpu::MemoryKind kind_;
  std::vector<std::byte> host_;
  void* pinned_ = nullptr;
  CUdeviceptr device_ = 0;
  std::unique_ptr<Mapped> mapped_;
};

struct Way {
  const char* name;
  const char* transports;
  Settings settings;
};

class GpuAm : public ::testing::TestWithParam<Way> {
 protected:
  static Settings settings() {
    Settings all{{"gpu_stage_chunk", "65536"}};
    all.insert(all.end(), GetParam().settings.begin(), GetParam().settings.end());
    return all;
  }
};

constexpr std::size_t kMost = 700'001;

struct Key {
  std::uint64_t address;
  std::uint64_t size;
  std::array<std::byte, 512> bytes;
};

Key key_of(const am::Region& region, std::uint64_t address) {
  Key key{address, region.key().size(), {}};
  EXPECT_LE(key.size, key.bytes.size());
  std::copy_n(region.key().begin(), std::min<std::size_t>(key.size, key.bytes.size()), key.bytes.begin());
  return key;
}

Result<MemoryHandle> unpacked(const am::Endpoint& peer, const Key& key) {
  return peer.unpack_key({key.bytes.data(), static_cast<std::size_t>(key.size)});
}

TEST_P(GpuAm, PutAndGetBetweenEveryPairOfKindsOfMemory) {
  in_two_processes(
      [](const Channel& other) {
        const CudaProgram program;
        std::vector<std::unique_ptr<AnyBuffer>> buffers;
        {
          ContextEnd here{other, GetParam().transports, settings()};
          std::vector<am::Region> regions;
          for (const gpu::MemoryKind kind : AnyBuffer::kKinds) {
            buffers.push_back(std::make_unique<AnyBuffer>(kind, kMost));
            buffers.back()->write(pattern(kMost, static_cast<unsigned>(kind)));
            auto region = here.context->register_memory(buffers.back()->at(), kMost, Rights::all);
            ASSERT_TRUE(region) << static_cast<int>(kind) << ": " << to_string(region.error());
            const Key key = key_of(*region, reinterpret_cast<std::uint64_t>(buffers.back()->at()));
            send(other, key);
            regions.push_back(std::move(*region));
          }
          here.meet();  // progresses until the peer is through
          here.meet();
        }
        for (std::size_t i = 0; i < buffers.size(); ++i) {
          auto expected = pattern(kMost, static_cast<unsigned>(AnyBuffer::kKinds[i]));
          const auto put = pattern(300'000, 100 + static_cast<unsigned>(AnyBuffer::kKinds.back()));
          std::copy(put.begin(), put.end(), expected.begin() + 400'000);
          EXPECT_EQ(buffers[i]->read(kMost), expected) << static_cast<int>(AnyBuffer::kKinds[i]);
        }
      },
      [](const Channel& other) {
        const CudaProgram program;
        ContextEnd here{other, GetParam().transports, settings()};
        std::vector<Key> keys;
        for (std::size_t i = 0; i < AnyBuffer::kKinds.size(); ++i) keys.push_back(receive<Key>(other));
        here.meet();
        for (const gpu::MemoryKind local : AnyBuffer::kKinds) {
          AnyBuffer buffer{local, kMost};
          for (std::size_t i = 0; i < keys.size(); ++i) {
            const gpu::MemoryKind remote = AnyBuffer::kKinds[i];
            SCOPED_TRACE(testing::Message() << static_cast<int>(local) << " here, there " << static_cast<int>(remote));
            const auto handle = unpacked(*here.peer, keys[i]);
            ASSERT_TRUE(handle) << to_string(handle.error());
            const auto all = pattern(kMost, static_cast<unsigned>(remote));
            for (const std::size_t size : {std::size_t{1}, std::size_t{4'000}, std::size_t{399'990}}) {
              const Error got = here.finish(
                  [&](Completion& c) { return here.peer->get(buffer.at(3), keys[i].address + 7, *handle, size, c); });
              ASSERT_EQ(got.code, Errc{}) << to_string(got);
              const auto found = buffer.read(3 + size);
              ASSERT_TRUE(std::equal(found.begin() + 3, found.end(), all.begin() + 7)) << size << " bytes";
            }
            buffer.write(pattern(300'000, 100 + static_cast<unsigned>(local)));
            const Error put = here.finish([&](Completion& c) {
              return here.peer->put(buffer.at(), keys[i].address + 400'000, *handle, 300'000, c);
            });
            ASSERT_EQ(put.code, Errc{}) << to_string(put);
            const Error flushed = here.finish([&](Completion& c) { return here.peer->flush(c); });
            EXPECT_EQ(flushed.code, Errc{});
          }
        }
        here.meet();
      });
}

/// A process that exposes GPU memory of `size` bytes to the other one's `use`, and progresses until it is through.
void expose_to(const Channel& other, std::size_t size, const std::string& transports, const Settings& settings) {
  const CudaProgram program;
  DeviceBuffer buffer{size};
  ContextEnd here{other, transports, settings};
  const auto region = here.context->register_memory(buffer.at(), size, Rights::all);
  ASSERT_TRUE(region) << to_string(region.error());
  const Key key = key_of(*region, reinterpret_cast<std::uint64_t>(buffer.at()));
  send(other, key);
  here.meet();
  here.meet();
}

TEST_P(GpuAm, AFlushOfTheContextWaitsForEveryPutOfGpuMemory) {
  in_two_processes([](const Channel& other) { expose_to(other, kMost, GetParam().transports, settings()); },
                   [](const Channel& other) {
                     const CudaProgram program;
                     DeviceBuffer buffer{kMost};
                     ContextEnd here{other, GetParam().transports, settings()};
                     const Key key = receive<Key>(other);
                     here.meet();
                     const auto handle = unpacked(*here.peer, key);
                     ASSERT_TRUE(handle) << to_string(handle.error());
                     opal::test::CountedCompletion put;
                     Post post = Post::again;
                     for (; post == Post::again; here.context->progress()) {
                       post = here.peer->put(buffer.at(), key.address, *handle, kMost, put);
                     }
                     ASSERT_NE(post, Post::failed) << to_string(put.error);
                     const Error flushed = here.finish([&](Completion& c) { return here.context->flush(c); });
                     EXPECT_EQ(flushed.code, Errc{}) << to_string(flushed);
                     EXPECT_EQ(put.calls, post == Post::queued ? 1 : 0);
                     here.meet();
                   });
}

/// Posts itself again when it ends, and notes the answer.
struct Again : Completion {
  explicit Again(std::function<Post(Completion&)> operation) : operation(std::move(operation)) {
    fn = [](Completion& self) noexcept {
      auto& again = static_cast<Again&>(self);
      again.ends.push_back(again.error.code);
      if (again.ends.size() == 1) again.answer = again.operation(again);
    };
  }
  std::function<Post(Completion&)> operation;
  std::vector<Errc> ends;
  std::optional<Post> answer;
};

TEST_P(GpuAm, ACompletionThatPostsAgainDuringTheDisconnectIsRefused) {
  in_two_processes([](const Channel& other) { expose_to(other, kMost, GetParam().transports, settings()); },
                   [](const Channel& other) {
                     const CudaProgram program;
                     DeviceBuffer buffer{kMost};
                     ContextEnd here{other, GetParam().transports, settings()};
                     const Key key = receive<Key>(other);
                     here.meet();
                     const auto handle = unpacked(*here.peer, key);
                     ASSERT_TRUE(handle) << to_string(handle.error());
                     am::Endpoint& peer = *here.peer;
                     Again put{[&](Completion& c) { return peer.put(buffer.at(), key.address, *handle, kMost, c); }};
                     here.meet();
                     Post post = Post::again;
                     while ((post = put.operation(put)) == Post::again) here.context->progress();
                     here.context->disconnect(peer);
                     if (post == Post::queued) {
                       ASSERT_EQ(put.ends.size(), 1U) << "what was refused has no end";
                       EXPECT_EQ(put.answer, Post::failed);
                     }
                     for (int i = 0; i < 100; ++i) here.context->progress();
                     EXPECT_LE(put.ends.size(), 1U);
                   });
}

TEST_P(GpuAm, MessagesFromEveryKindOfMemoryArriveInOrder) {
  in_two_processes(
      [](const Channel& other) {
        const CudaProgram program;
        ContextEnd here{other, GetParam().transports, settings()};
        for (const gpu::MemoryKind kind : AnyBuffer::kKinds) {
          const std::size_t most = here.peer->attributes().max_send;
          AnyBuffer buffer{kind, most};
          for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{2'000}, most}) {
            buffer.write(pattern(size, static_cast<unsigned>(size)));
            here.send(buffer.at(), size);
            EXPECT_EQ(here.peer->send_or_queue(opal::test::kTag, {}, {buffer.at(), size}), Post::done);
          }
        }
        here.meet();
        here.meet();
      },
      [](const Channel& other) {
        const CudaProgram program;
        ContextEnd here{other, GetParam().transports, settings()};
        here.meet();
        std::size_t i = 0;
        for (const gpu::MemoryKind kind : AnyBuffer::kKinds) {
          for (const std::size_t size :
               {std::size_t{0}, std::size_t{1}, std::size_t{2'000}, here.peer->attributes().max_send}) {
            for (int way = 0; way < 2; ++way, ++i) {
              ASSERT_LT(i, here.received.size());
              ASSERT_EQ(here.received[i], pattern(size, static_cast<unsigned>(size)))
                  << static_cast<int>(kind) << ", way " << way;
            }
          }
        }
        here.meet();
      });
}

TEST_P(GpuAm, ATransferThatCannotBeIsAnErrorAndTheNextOneWorks) {
  in_two_processes(
      [](const Channel& other) {
        const CudaProgram program;
        DeviceBuffer buffer{200'000};
        ContextEnd here{other, GetParam().transports, settings()};
        {
          const auto region = here.context->register_memory(buffer.at(), 200'000, Rights::remote_read);
          ASSERT_TRUE(region);
          const Key key = key_of(*region, reinterpret_cast<std::uint64_t>(buffer.at()));
          send(other, key);
          here.meet();
          here.meet();
        }
        here.meet();
        here.meet();
      },
      [](const Channel& other) {
        const CudaProgram program;
        DeviceBuffer buffer{200'000};
        ContextEnd here{other, GetParam().transports, settings()};
        const auto key = receive<Key>(other);
        const auto handle = unpacked(*here.peer, key);
        ASSERT_TRUE(handle);
        here.meet();
        const auto get = [&](std::uint64_t offset, std::uint64_t size) {
          return here
              .finish(
                  [&](Completion& c) { return here.peer->get(buffer.at(), key.address + offset, *handle, size, c); })
              .code;
        };
        EXPECT_EQ(get(0, 200'000), Errc{});
        EXPECT_EQ(get(100'000, 100'001), Errc::invalid_argument);
        EXPECT_EQ(
            here.finish([&](Completion& c) { return here.peer->put(buffer.at(), key.address, *handle, 200'000, c); })
                .code,
            Errc::permission);
        EXPECT_EQ(get(0, 200'000), Errc{});
        here.meet();
        here.meet();
        EXPECT_EQ(get(0, 200'000), Errc::invalid_argument) << "the registration is gone";
        here.meet();
      });
}

TEST_P(GpuAm, APeersDeathEndsEveryTransferOnce) {
  in_own_process([] {
    opal::test::Child owner{[](Channel& other) {
      const CudaProgram program;
      AnyBuffer buffer{gpu::MemoryKind::pooled, kMost};
      ContextEnd here{other, GetParam().transports, settings()};
      const auto region = here.context->register_memory(buffer.at(), kMost, Rights::all);
      const Key key = key_of(*region, reinterpret_cast<std::uint64_t>(buffer.at()));
      send(other, key);
      for (;;) here.context->wait(std::chrono::milliseconds{100});
      return 0;
    }};
    const CudaProgram program;
    DeviceBuffer buffer{kMost};
    ContextEnd here{owner.channel(), GetParam().transports, settings()};
    const auto key = receive<Key>(owner.channel());
    const auto handle = unpacked(*here.peer, key);
    ASSERT_TRUE(handle);
    std::vector<opal::test::CountedCompletion> gets(20);
    int queued = 0;
    owner.kill();
    for (auto& get : gets) {
      const Post post = here.peer->get(buffer.at(), key.address, *handle, kMost, get);
      if (post == Post::queued) ++queued;
    }
    here.until([&] { return here.peer->dead(); });
    here.until([&] {
      return std::count_if(gets.begin(), gets.end(), [](const auto& get) { return get.calls == 1; }) == queued;
    });
    for (int i = 0; i < 100; ++i) here.context->progress();
    for (const auto& get : gets) EXPECT_LE(get.calls, 1);
  });
}

// R15 and "capability reported upward": the layer above can see that gets now go from device to device.
TEST(GpuAmDirect, TheEndpointSaysWhenGpuMemoryGoesFromDeviceToDevice) {
  const auto end = [](const Channel& other) {
    const CudaProgram program;
    const DeviceBuffer buffer{64};
    ContextEnd here{other, "smcuda"};
    EXPECT_FALSE(here.peer->gpu_direct());
    here.meet();
    here.send(buffer.at(), 64);
    here.until([&] { return here.peer->gpu_direct(); });
    here.meet();
  };
  in_two_processes(end, end);
}

/// Memory that two processes share.
struct Rounds {
  std::atomic<int> quiet{0};
  std::atomic<int> emptied{0};
};

void checkpoint(ContextEnd& here, Rounds& rounds) {
  // Without sleeping: what the other process writes there wakes nothing.
  const auto until = [&](const auto& condition) {
    const Deadline deadline = Deadline::after(std::chrono::seconds{60});
    while (!condition() && !deadline.expired()) here.context->progress();
    EXPECT_TRUE(condition());
  };
  here.context->quiesce(1);
  until([&] { return here.context->quiet(); });
  ++rounds.quiet;
  until([&] { return here.context->quiet() && rounds.quiet == 2; });
  const auto emptied = here.context->checkpoint();
  EXPECT_TRUE(emptied) << to_string(emptied.error());
  EXPECT_EQ(here.context->remote_memory_statistics().registered.count, 0U);
  ++rounds.emptied;
  until([&] { return rounds.emptied == 2; });
  here.context->resume();
}

TEST(GpuAmDirect, ACheckpointUnmapsPeersMemoryAndTransfersGoOnAfterIt) {
  constexpr std::size_t kSize = 1 << 20;
  void* const page = ::mmap(nullptr, sizeof(Rounds), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  auto& rounds = *new (page) Rounds;
  in_two_processes(
      [&](const Channel& other) {
        const CudaProgram program;
        AnyBuffer buffer{gpu::MemoryKind::legacy, kSize};
        ContextEnd here{other, "smcuda"};
        const auto region = here.context->register_memory(buffer.at(), kSize, Rights::all);
        const Key key = key_of(*region, reinterpret_cast<std::uint64_t>(buffer.at()));
        buffer.write(std::vector<std::byte>(kSize, std::byte{1}));
        send(other, key);
        here.meet();
        checkpoint(here, rounds);
        buffer.write(std::vector<std::byte>(kSize, std::byte{2}));
        here.meet();
        here.meet();
      },
      [&](const Channel& other) {
        const CudaProgram program;
        AnyBuffer buffer{gpu::MemoryKind::legacy, kSize};
        ContextEnd here{other, "smcuda"};
        const auto key = receive<Key>(other);
        const auto handle = unpacked(*here.peer, key);
        ASSERT_TRUE(handle);
        here.send(buffer.at(), 64);
        here.until([&] { return here.peer->gpu_direct(); });
        const auto get = [&](std::byte expected) {
          const Error error =
              here.finish([&](Completion& c) { return here.peer->get(buffer.at(), key.address, *handle, kSize, c); });
          EXPECT_EQ(error.code, Errc{});
          EXPECT_EQ(buffer.read(kSize), std::vector<std::byte>(kSize, expected));
          EXPECT_EQ(here.context->remote_memory_statistics().registered.count, 1U);
        };
        get(std::byte{1});
        here.meet();
        checkpoint(here, rounds);
        here.meet();
        get(std::byte{2});
        here.meet();
      });
  ::munmap(page, sizeof(Rounds));
}

TEST(GpuAmDirect, AContextTellsAtItsEndHowOftenPeersMemoryWasMapped) {
  constexpr std::size_t kSize = 1 << 20;
  in_two_processes(
      [](const Channel& other) {
        const CudaProgram program;
        const DeviceBuffer buffer{kSize};
        ContextEnd here{other, "smcuda"};
        const auto region = here.context->register_memory(buffer.at(), kSize, Rights::all);
        const Key key = key_of(*region, reinterpret_cast<std::uint64_t>(buffer.at()));
        send(other, key);
        here.meet();
      },
      [](const Channel& other) {
        const CudaProgram program;
        DeviceBuffer buffer{kSize};
        const LogLines lines{log::Level::info};
        {
          ContextEnd here{other, "smcuda"};
          const auto key = receive<Key>(other);
          const auto handle = unpacked(*here.peer, key);
          ASSERT_TRUE(handle);
          here.send(buffer.at(), 64);
          here.until([&] { return here.peer->gpu_direct(); });
          for (int i = 0; i < 3; ++i) {
            const Error error =
                here.finish([&](Completion& c) { return here.peer->get(buffer.at(), key.address, *handle, kSize, c); });
            EXPECT_EQ(error.code, Errc{});
          }
          EXPECT_EQ(here.context->remote_memory_statistics().misses, 1U);
          here.meet();
        }
        EXPECT_THAT(lines.texts(),
                    ::testing::Contains(::testing::HasSubstr("mappings of peers' GPU memory: 2 hits, 1 misses")));
      });
}

// One module does what sm does too: it is not opened beside it, and peers that have only sm are reached.
TEST(GpuAmDirect, SmcudaTakesThePlaceOfSmAndReachesPeersThatHaveOnlySm) {
  in_two_processes(
      [](const Channel& other) {
        const CudaProgram program;
        ContextEnd here{other, "smcuda,sm"};
        const auto transports = here.context->transports();
        EXPECT_TRUE(std::any_of(transports.begin(), transports.end(), [](const auto& transport) {
          return transport.name == "sm" && !transport.usable && transport.reason == "smcuda reaches its peers";
        }));
        EXPECT_EQ(here.peer->attributes().transport, "smcuda");
        const DeviceBuffer buffer{64};
        here.send(buffer.at(), 64);
        here.meet();
        EXPECT_FALSE(here.peer->gpu_direct());
      },
      [](const Channel& other) {
        const LogLines warnings{log::Level::warn};
        {
          ContextEnd here{other, "sm", {{"gpu_use", "off"}}};
          EXPECT_EQ(here.peer->attributes().transport, "sm");
          here.meet();
          EXPECT_EQ(here.received.size(), 1u);
        }
        EXPECT_THAT(warnings.texts(), ::testing::IsEmpty()) << "it was asked for what it has no handler for";
      });
}

TEST(GpuAmDirect, StagedPiecesAreBoundedHoweverLargeTheTransfer) {
  in_two_processes(
      [](const Channel& other) {
        const CudaProgram program;
        std::vector<std::byte> bytes = pattern(8 << 20);
        ContextEnd here{other, "sm"};
        const auto region = here.context->register_memory(bytes.data(), bytes.size(), Rights::all);
        const Key key = key_of(*region, reinterpret_cast<std::uint64_t>(bytes.data()));
        send(other, key);
        here.meet();
      },
      [](const Channel& other) {
        const CudaProgram program;
        DeviceBuffer buffer{8 << 20};
        ContextEnd here{other, "sm", {{"gpu_stage_chunk", "65536"}}};
        if (Control* const control = cuda_double::control()) {
          control->set(Setting::late, 7);
          control->set(Setting::seed, 5);
        }
        const auto key = receive<Key>(other);
        const auto handle = unpacked(*here.peer, key);
        opal::test::CountedCompletion get;
        ASSERT_EQ(here.peer->get(buffer.at(), key.address, *handle, 8 << 20, get), Post::queued);
        std::uint64_t most = 0;
        while (get.calls == 0) {
          here.context->progress();
          if (Control* const control = cuda_double::control()) most = std::max(most, control->count(Count::unfinished));
        }
        EXPECT_LE(most, 16u) << "of eight pieces, each a copy and an event";
        if (cuda_double::control() != nullptr) {
          EXPECT_GE(most, 8u) << "pieces overlap";
        }
        EXPECT_TRUE(get.ok());
        EXPECT_EQ(buffer.read(), pattern(8 << 20));
        here.meet();
      });
}

/// Puts host memory into a peer's GPU memory and gets it back; the peer counts what its GPU does meanwhile.
TEST_P(GpuAm, TheOwnerCopiesManyMessagesAtATimeWhilePeersPutAndGet) {
  constexpr std::size_t kSize = 4 << 20;
  in_two_processes(
      [](const Channel& other) {
        const CudaProgram program;
        DeviceBuffer buffer{kSize};
        ContextEnd here{other, GetParam().transports, GetParam().settings};
        const auto region = here.context->register_memory(buffer.at(), kSize, Rights::all);
        ASSERT_TRUE(region) << to_string(region.error());
        const Key key = key_of(*region, buffer.address());
        send(other, key);
        Control* const control = cuda_double::control();
        if (control != nullptr) {
          control->set(Setting::late, 40);
          control->set(Setting::seed, 3);
        }
        const std::uint64_t before = control != nullptr ? control->calls("cuMemcpyAsync") : 0;
        here.until([&] { return !here.received.empty(); });
        if (control != nullptr && !here.peer->gpu_direct()) {
          const std::uint64_t copies = control->calls("cuMemcpyAsync") - before;
          EXPECT_LE(copies, 2 * (kSize / (200 << 10))) << "about 256 KiB each, or one message if that is larger";
          control->set(Setting::late, 0);
        }
        EXPECT_EQ(buffer.read(), pattern(kSize, 9));
        here.meet();
      },
      [](const Channel& other) {
        const CudaProgram program;
        ContextEnd here{other, GetParam().transports, GetParam().settings};
        const auto key = receive<Key>(other);
        const auto handle = unpacked(*here.peer, key);
        ASSERT_TRUE(handle);
        const auto bytes = pattern(kSize, 9);
        std::vector<std::byte> back(kSize);
        EXPECT_EQ(
            here.finish([&](Completion& c) { return here.peer->put(bytes.data(), key.address, *handle, kSize, c); })
                .code,
            Errc{});
        EXPECT_EQ(
            here.finish([&](Completion& c) { return here.peer->get(back.data(), key.address, *handle, kSize, c); })
                .code,
            Errc{});
        EXPECT_EQ(back, bytes);
        here.send("done", 4);
        here.meet();
      });
}

TEST_P(GpuAm, APeerThatDiesWhileItReadsAndWritesLeavesTheOwnerWell) {
  constexpr std::size_t kSize = 4 << 20;
  in_own_process([] {
    opal::test::Child reader{[](Channel& other) {
      const CudaProgram program;
      ContextEnd here{other, GetParam().transports, settings()};
      const auto key = receive<Key>(other);
      const auto handle = unpacked(*here.peer, key);
      std::vector<std::byte> to(kSize);
      const auto from = pattern(kSize / 2);
      opal::test::CountedCompletion ends[2];
      EXPECT_NE(here.peer->get(to.data(), key.address, *handle, kSize, ends[0]), Post::failed);
      EXPECT_NE(here.peer->put(from.data(), key.address, *handle, kSize / 2, ends[1]), Post::failed);
      other.send("posted");
      for (;;) here.context->progress();
      return 0;
    }};
    const CudaProgram program;
    DeviceBuffer buffer{kSize};
    {
      ContextEnd here{reader.channel(), GetParam().transports, settings()};
      const auto region = here.context->register_memory(buffer.at(), kSize, Rights::all);
      ASSERT_TRUE(region);
      const Key key = key_of(*region, buffer.address());
      send(reader.channel(), key);
      if (Control* const control = cuda_double::control()) control->set(Setting::late, 40);
      ASSERT_TRUE(reader.channel().expect("posted"));
      for (int i = 0; i < 50; ++i) here.context->progress();
      reader.kill();
      here.until([&] { return here.peer->dead(); });
      here.until([] {
        const Control* const control = cuda_double::control();
        return control == nullptr || control->count(Count::unfinished) == 0;
      });
    }
    if (const Control* const control = cuda_double::control()) {
      EXPECT_EQ(control->count(Count::events), 0u);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Over, GpuAm,
                         ::testing::Values(Way{"smcuda", "smcuda", {}},
                                           Way{"smcuda_without_ipc", "smcuda", {{"btl_smcuda_ipc", "false"}}},
                                           Way{"sm", "sm", {}},
                                           Way{"sm_without_single_copy", "sm", {{"btl_sm_single_copy", "none"}}},
                                           Way{"tcp", "tcp", {}}, Way{"ofi", "ofi", {{"btl_ofi_rma", "native"}}},
                                           Way{"portals4", "portals4", {}}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace opal::gpu_pair
