// SPDX-License-Identifier: Apache-2.0
// Many devices on one fabric: what one costs in memory, and a broadcast along a tree of them.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdio>
#include <memory>
#include <vector>

#include "opal/core/clock.hpp"
#include "opal/core/sanitizer.hpp"
#include "tests/btl/sim/world.hpp"

namespace opal::test {
namespace {

#if OPAL_ADDRESS_SANITIZER || OPAL_THREAD_SANITIZER
constexpr bool kHeapIsMeasurable = false;
constexpr std::uint32_t kDevices = 5'000;
#else
constexpr bool kHeapIsMeasurable = true;
constexpr std::uint32_t kDevices = 100'000;
#endif

std::size_t heap_in_use() {
  const auto info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

/// Devices that share what a Context gives a module, so that only the devices are measured.
class Swarm final : public btl::Observer {
 public:
  Swarm() : fabric_(*btl::sim::Fabric::drive(config_)) {
    EXPECT_TRUE(handlers_.set(kTag, btl::bind<&Swarm::on_message>(*this, "swarm")));
    const btl::ModuleParameters parameters = make_parameters();
    for (std::uint32_t i = 0; i < kDevices; ++i)
      modules_.push_back(std::move(*btl::sim::Module::open(parameters, config_)));
    heard_.resize(kDevices);
  }

  /// All devices get `number` from device 0, each over its parent in a tree of 16 children.
  void broadcast(std::uint64_t number) {
    number_ = number;
    forward(0);
    btl::sim::NodeId node = 0;
    do {
      while (fabric_->next_ready(node)) {
        while (modules_[node]->progress(64) != 0) {
        }
      }
    } while (fabric_->step());
  }
  [[nodiscard]] std::size_t heard(std::uint64_t number) const {
    return static_cast<std::size_t>(std::count(heard_.begin() + 1, heard_.end(), number));
  }
  [[nodiscard]] btl::sim::Fabric& fabric() noexcept { return *fabric_; }

 private:
  static constexpr std::uint32_t kChildren = 16;

  btl::ModuleParameters make_parameters();
  void forward(btl::sim::NodeId from) {
    for (std::uint32_t i = 1; i <= kChildren; ++i) {
      const std::uint32_t child = from * kChildren + i;
      if (child >= kDevices) return;
      btl::sim::Module& module = *modules_[from];
      btl::Endpoint& to = **module.connect({child, child}, modules_[child]->address());
      ASSERT_EQ(module.send_inline(to, kTag, bytes_of(number_), {}), Post::done);
    }
  }
  void on_message(btl::Delivery& delivery) noexcept {
    const btl::sim::NodeId node = static_cast<btl::sim::Module&>(delivery.from.module()).node();
    ASSERT_TRUE(read_object(delivery.data, heard_[node]));
    forward(node);
  }
  void on_accepted(btl::Endpoint&) noexcept override {}
  void on_failed(btl::Endpoint&, const Error& why) noexcept override { ADD_FAILURE() << to_string(why); }

  btl::sim::Config config_{.fabric = fresh_fabric_name()};
  std::shared_ptr<btl::sim::Fabric> fabric_;
  btl::HandlerTable handlers_;
  btl::RegistrationTable registrations_ = *btl::RegistrationTable::create(16);
  std::vector<std::unique_ptr<btl::sim::Module>> modules_;
  std::vector<std::uint64_t> heard_;
  std::uint64_t number_ = 0;
};

btl::ModuleParameters Swarm::make_parameters() { return {PeerId{1, 1}, handlers_, registrations_, *this, {}}; }

TEST(SimScale, AHundredThousandDevicesAreCheapAndABroadcastReachesThemAll) {
  const std::size_t before = heap_in_use();
  Swarm swarm;
  const std::size_t idle = (heap_in_use() - before) / kDevices;
  swarm.broadcast(1);  // connects
  const std::size_t connected = (heap_in_use() - before) / kDevices;
  EXPECT_EQ(swarm.heard(1), kDevices - 1);
  if (kHeapIsMeasurable) {
    EXPECT_LE(idle, 2560U) << "bytes of a device that has no peer: the parts of every transport with a device";
    EXPECT_LE(connected, 4096U) << "and with two endpoints, its parent's and its own to it";
  }
  const std::uint64_t events = swarm.fabric().statistics().events;
  const std::uint64_t begin = now_ns();
  for (std::uint64_t number = 2; number < 6; ++number) swarm.broadcast(number);
  const std::uint64_t elapsed = now_ns() - begin;
  EXPECT_EQ(swarm.heard(5), kDevices - 1);
  std::printf("%zu bytes a device, %zu connected; %.2f million events a second\n", idle, connected,
              static_cast<double>(swarm.fabric().statistics().events - events) * 1e3 / static_cast<double>(elapsed));
}

TEST(SimScale, TwoDevicesExchangeMessagesFast) {
  constexpr std::uint32_t kMessages = 300'000;
  World world;
  Side& a = world.add();
  Side& b = world.add();
  btl::Endpoint* to_b = a.connect(b);
  std::uint32_t received = 0;
  b.handler = [&](btl::Delivery&) { ++received; };
  world.run();
  const std::uint64_t begin = now_ns();
  for (std::uint32_t i = 0; i < kMessages;) {
    while (i < kMessages && a.module().send_inline(*to_b, kTag, bytes_of(i), {}) == Post::done) ++i;
    ASSERT_TRUE(world.fabric().step());
    world.settle();
  }
  world.run();
  EXPECT_EQ(received, kMessages);
  std::printf("%.2f million messages a second\n", kMessages * 1e3 / static_cast<double>(now_ns() - begin));
}

}  // namespace
}  // namespace opal::test
