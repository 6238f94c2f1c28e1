// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a module that has no Context above it, over every transport.
#include <array>

#include "opal/rcache/cache.hpp"
#include "tests/conformance/side.hpp"

namespace opal::test {
namespace {

class ModuleCheckpoint : public Conformance {
 protected:
  void quiesce_both(std::uint64_t round) {
    a().module().quiesce(round);
    b().module().quiesce(round);
  }
  void resume_both() {
    a().module().resume();
    b().module().resume();
  }
  [[nodiscard]] bool both_quiet() {
    return pump_both([&] {
      const bool here = a().module().quiet();
      return b().module().quiet() && here;
    });
  }
};
OPAL_CONFORMANCE_SUITE(ModuleCheckpoint, usable_transports);

class ModuleCheckpointOfTwo : public ModuleCheckpoint {};
OPAL_CONFORMANCE_SUITE(ModuleCheckpointOfTwo, joining_transports);

TEST_P(ModuleCheckpoint, WhenAllAreQuietAllMessagesWereHandledAndPutsAreVisible) {
  std::vector<std::byte> window(300'000);
  const MemoryHandle handle = *b().module().register_memory(window.data(), window.size(), Rights::all);
  for (std::uint64_t round = 1; round <= 3; ++round) {
    const std::vector<std::byte> source = pattern(window.size(), static_cast<std::uint32_t>(round));
    const std::size_t before = b().received.size();
    for (std::uint32_t i = 0; i < 100; ++i) ASSERT_EQ(send_to_b({}, pattern(100, i)), Post::done);
    CountedCompletion put;
    Post post = Post::again;
    ASSERT_TRUE(pump_both([&] {
      post = a().module().put(to_b(), source.data(), nullptr, reinterpret_cast<std::uint64_t>(window.data()), handle,
                              source.size(), put);
      return post != Post::again;
    }));
    ASSERT_NE(post, Post::failed);
    quiesce_both(round);
    ASSERT_TRUE(both_quiet());
    EXPECT_EQ(b().received.size(), before + 100);
    EXPECT_EQ(window, source);
    EXPECT_EQ(put.calls, post == Post::queued ? 1 : 0);
    EXPECT_TRUE(a().module().checkpoint());
    EXPECT_TRUE(b().module().checkpoint());
    resume_both();
    ASSERT_EQ(send_to_b({}, pattern(100, 1)), Post::done);
    ASSERT_TRUE(pump_both([&] { return b().received.size() == before + 101; }));
  }
  EXPECT_TRUE(b().module().deregister_memory(handle));
}

TEST_P(ModuleCheckpointOfTwo, ItIsNotQuietBeforeThePeerTakesPart) {
  ASSERT_EQ(send_to_b({}, {}), Post::done);
  a().module().quiesce(1);
  for (int i = 0; i < 1000; ++i) {
    a().module().progress(64);
    b().module().progress(64);
    ASSERT_FALSE(a().module().quiet());
  }
  EXPECT_EQ(a().module().checkpoint().error().code, Errc::busy);
  b().module().quiesce(1);
  EXPECT_TRUE(both_quiet());
}

TEST_P(ModuleCheckpointOfTwo, APeerThatEndsMeanwhileIsNotWaitedFor) {
  ASSERT_EQ(send_to_b({}, {}), Post::done);
  ASSERT_TRUE(pump_both([&] { return b().received.size() == 1; }));
  a().module().quiesce(1);
  b_.reset();
  EXPECT_TRUE(pump([&] { return a().module().quiet(); }, a()));
}

/// The module's registrations, as a program without a Context would keep them.
struct Registrar final : rcache::Device {
  explicit Registrar(btl::Module& module) : module(module) {}
  Result<void> register_memory(rcache::Registration& registration) noexcept override {
    OPAL_TRY_ASSIGN(const MemoryHandle handle,
                    module.register_memory(registration.base(), registration.length(), Rights::all));
    registration.cookie().set(handle);
    ++live;
    return {};
  }
  void deregister_memory(rcache::Registration& registration) noexcept override {
    EXPECT_TRUE(module.deregister_memory(registration.cookie().get<MemoryHandle>()));
    --live;
  }
  btl::Module& module;
  int live = 0;
};

TEST_P(ModuleCheckpoint, ItsCacheIsEmptiedRefusesMeanwhileAndServesAgain) {
  std::array<std::byte, 8192> buffer{};
  Registrar registrar{a().module()};
  rcache::Cache cache{registrar};
  a().module().use_registrations(&cache);
  rcache::Lease in_use = *cache.get(buffer.data(), buffer.size(), 1);
  quiesce_both(1);
  ASSERT_TRUE(both_quiet());
  const auto refused = a().module().checkpoint();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::busy);
  EXPECT_EQ(refused.error().detail, 1U) << "so many are in use";
  EXPECT_EQ(cache.get(buffer.data(), 1, 1).error().code, Errc::busy);
  in_use.reset();
  EXPECT_EQ(registrar.live, 0) << "not kept after its last use";
  EXPECT_TRUE(a().module().checkpoint());
  resume_both();
  EXPECT_TRUE(cache.get(buffer.data(), buffer.size(), 1));
  EXPECT_EQ(registrar.live, 1);
  a().module().use_registrations(nullptr);
}

}  // namespace
}  // namespace opal::test
