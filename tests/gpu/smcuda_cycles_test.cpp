// SPDX-License-Identifier: Apache-2.0
// Ten thousand times over the transport: allocate, register, be read by a mapping, free.  The reader always gets the
// memory that is meant, keeps no more than it may, and in the end nothing is open on either side.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/gpu/pair.hpp"

namespace opal::gpu_pair {
namespace {

using opal::test::Channel;

constexpr int kCycles = 10'000;
constexpr int kLive = 8;  // at a time
constexpr std::size_t kPiece = 64;
constexpr Tag kOffer = kUserTags.first + 2;
constexpr Tag kRead = kUserTags.first + 3;

/// What is to be read next: followed by the bytes of the handle.
struct Offer {
  std::uint64_t address;
  std::uint64_t seed;
};

struct Inbox {
  void on_offer(btl::Delivery& delivery) noexcept {
    Offer offer{};
    EXPECT_TRUE(read_object(delivery.data, offer));
    offers.emplace_back(offer, *MemoryHandle::from_bytes(delivery.data.subspan(sizeof offer)));
  }
  void on_read(btl::Delivery&) noexcept { ++reads; }
  std::vector<std::pair<Offer, MemoryHandle>> offers;
  int reads = 0;
};

void owner(const Channel& other) {
  const CudaProgram program;
  {
    SideEnd here{other};
    Inbox inbox;
    ASSERT_TRUE(here.side.handlers().set(kRead, btl::bind<&Inbox::on_read>(inbox, "read")));
    {
      const DeviceBuffer first{64};
      here.connect_gpus(first.at());
    }
    std::mt19937_64 random{1};
    std::vector<std::unique_ptr<DeviceBuffer>> live(static_cast<std::size_t>(kLive));
    for (int i = 0; i < kCycles; i += kLive) {
      std::vector<MemoryHandle> handles;
      for (auto& old : live) old.reset();  // their addresses may be given out again at once
      for (int j = 0; j < kLive; ++j) {
        auto& fresh = live[static_cast<std::size_t>(j)];
        fresh = std::make_unique<DeviceBuffer>(kPiece + random() % (128 << 10));
        const std::uint64_t offset = random() % (fresh->size() - kPiece + 1);
        const Offer offer{reinterpret_cast<std::uint64_t>(fresh->at(offset)), static_cast<std::uint64_t>(i + j)};
        fresh->write(pattern(kPiece, static_cast<unsigned>(offer.seed)), offset);
        const auto handle = here.module().register_memory(fresh->at(offset), kPiece, Rights::remote_read);
        ASSERT_TRUE(handle) << to_string(handle.error());
        handles.push_back(*handle);
        here.until([&] {
          return here.module().send_inline(*here.peer, kOffer, bytes_of(offer), handle->bytes()) == Post::done;
        });
      }
      here.until([&] { return inbox.reads == i / kLive + 1; });
      for (const MemoryHandle& handle : handles) ASSERT_TRUE(here.module().deregister_memory(handle));
    }
    EXPECT_EQ(here.side.registrations().live(), 0u);
    here.meet();
  }
}

void reader(const Channel& other, bool leave_pinned, std::uint64_t limit, bool refusing, std::uint64_t most_open) {
  const CudaProgram program;
  Control* const control = cuda_double::control();
  if (control != nullptr) control->set(Setting::already_mapped, refusing ? 1 : 0);
  const DeviceBuffer to{kPiece};
  {
    btl::smcuda::Settings settings;
    settings.cache.leave_pinned = leave_pinned;
    settings.cache.count_limit = limit;
    SideEnd here{other, settings};
    Inbox inbox;
    ASSERT_TRUE(here.side.handlers().set(kOffer, btl::bind<&Inbox::on_offer>(inbox, "offer")));
    here.connect_gpus(to.at());
    for (int i = 0; i < kCycles; i += kLive) {
      here.until([&] { return inbox.offers.size() == static_cast<std::size_t>(kLive); });
      for (const auto& [offer, handle] : std::exchange(inbox.offers, {})) {
        ASSERT_EQ(here.get(to.at(), offer.address, handle, kPiece).code, Errc{});
        ASSERT_EQ(to.read(), pattern(kPiece, static_cast<unsigned>(offer.seed))) << "memory of another allocation";
        if (control != nullptr) {
          ASSERT_LE(control->count(Count::opened), most_open);
        }
      }
      here.until([&] { return here.module().send_inline(*here.peer, kRead, {}, {}) == Post::done; });
    }
    EXPECT_EQ(here.module().remote_memory_statistics().misses, static_cast<std::uint64_t>(kCycles))
        << "each of them by a mapping";
    here.meet();
  }
  if (control != nullptr) {
    EXPECT_EQ(control->count(Count::opened), 0u);
    EXPECT_EQ(control->count(Count::events), 0u);
  }
}

TEST(SmcudaCycles, TenThousandBuffersKeptForLaterLeaveNothingOpen) {
  in_two_processes(owner, [](const Channel& other) { reader(other, true, 0, false, 1'000); });
}

TEST(SmcudaCycles, TenThousandBuffersWithinALimitOnADriverThatRefusesToMapTwice) {
  in_two_processes(owner, [](const Channel& other) { reader(other, true, 4, true, 4); });
}

TEST(SmcudaCycles, TenThousandBuffersNeverKept) {
  in_two_processes(owner, [](const Channel& other) { reader(other, false, 0, false, 0); });
}

}  // namespace
}  // namespace opal::gpu_pair
